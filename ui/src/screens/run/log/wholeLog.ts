/** The log as a file, including lines that the page has not loaded. */
import { api, type Schemas } from "../../../api/client";
import {
  asText,
  contextFilter,
  type LogFilter,
  type LogLine,
  levelFilter,
  readable,
  shown,
} from "./logLines";

// The maximum of one response.
const LIMIT = 5_000;

/** Every line that passes the filter, up to the newest of the page: a run may print faster than it can be read. */
export async function wholeLog(id: string, filter: LogFilter, newest?: string): Promise<string[]> {
  const texts: string[] = [];
  const passing = passesOneByOne(filter);
  let after: string | null = null;
  for (;;) {
    const query: { limit: number; after?: string } = { limit: LIMIT, ...(after !== null && { after }) };
    const answer = await api.GET("/runs/{run_id}/logs", { params: { path: { run_id: id }, query } });
    const data = answer.data as Schemas["LogsView"] | undefined;
    texts.push(asText(passing((data?.lines ?? []).map(readable))));
    // The same position again: no more lines for now.
    if (!data || data.complete || data.next_after === after) return texts;
    after = data.next_after ?? null;
    if (newest !== undefined && after !== null && isAtOrBehind(after, newest)) return texts;
  }
}

/** The filter for page after page: what a line shows may depend on the lines before it. */
function passesOneByOne(filter: LogFilter): (lines: readonly LogLine[]) => readonly LogLine[] {
  const isLevelShown = filter.level === null ? () => true : levelFilter(filter.level);
  const found = filter.only && contextFilter(filter.only);
  return (lines) => {
    const levelled = lines.filter(isLevelShown);
    const passing = shown(levelled, { ...filter, level: null });
    return found ? passing.flatMap(found).map(({ line }) => line) : passing;
  };
}

/** The id of a line is its position in the log, such as `12-0`. */
function isAtOrBehind(place: string, other: string): boolean {
  const [block = 0, line = 0] = place.split("-").map(Number);
  const [otherBlock = 0, otherLine = 0] = other.split("-").map(Number);
  return block > otherBlock || (block === otherBlock && line >= otherLine);
}
