/** Parses chunks of a text/event-stream into complete events. */
import { parseJson } from "../lib/exactJson";

export interface ServerEvent {
  event: string;
  id?: string;
  /** Parsed JSON. */
  data: unknown;
}

export function eventParser(): (piece: string) => ServerEvent[] {
  let rest = "";
  return (piece) => {
    const blocks = (rest + piece).split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    return blocks.map(parseBlock).filter((event) => event !== null);
  };
}

function parseBlock(block: string): ServerEvent | null {
  let event = "message";
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value = ""] = /^(\w+)(?:: ?(.*))?$/.exec(line) ?? [];
    if (field === "event") event = value;
    else if (field === "id") id = value;
    else if (field === "data") data.push(value);
  }
  // A comment alone is a keepalive.
  if (data.length === 0) return null;
  return { event, id, data: parseJson(data.join("\n")) };
}
