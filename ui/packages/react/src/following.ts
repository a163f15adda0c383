/** Follows the inbox: an event stream or, if none gets through, polling. */
import type { HumanWaitsClient } from "./client.js";
import type { InboxEvent } from "./openWaits.js";
import type { HumanWait } from "./types.js";

/** `live`: streamed. `polling`: delayed. `away`: unreachable, retried. `refused`: not retried. */
export type InboxState = "connecting" | "live" | "polling" | "away" | "refused";

export interface InboxHandlers {
  onEvents(events: readonly InboxEvent[]): void;
  onList(waits: HumanWait[]): void;
  onState(state: InboxState, problem: unknown): void;
}

// The gateway sends all open questions at once, and then a heartbeat every 5 seconds. A proxy that buffers
// the stream sends nothing.
const FIRST_EVENT_MS = 5_000;
const SILENCE_MS = 12_500;
const FIRST_PAUSE_MS = 250;

export async function followInbox(
  client: HumanWaitsClient,
  handlers: InboxHandlers,
  pollMs: number,
  signal: AbortSignal,
): Promise<void> {
  let lastId: string | undefined;
  let pause = FIRST_PAUSE_MS;
  let heard = false;
  const onEvents = (events: readonly InboxEvent[]) => {
    lastId = events.findLast(({ id }) => id)?.id ?? lastId;
    pause = FIRST_PAUSE_MS;
    heard = true;
    handlers.onState("live", null);
    handlers.onEvents(events);
  };
  while (!signal.aborted) {
    heard = false;
    await readStream(client, lastId, onEvents, signal);
    // A broken stream resumes after its last event.
    if (!heard && !signal.aborted) {
      lastId = undefined;
      if (!(await readList(client, handlers, signal))) return;
    }
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(pause * 2, pollMs);
  }
}

async function readList(
  client: HumanWaitsClient,
  handlers: InboxHandlers,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    handlers.onList(await client.list(signal));
    handlers.onState("polling", null);
  } catch (problem) {
    if (signal.aborted) return false;
    handlers.onState(isFinal(problem) ? "refused" : "away", problem);
    return !isFinal(problem);
  }
  return true;
}

/** A refusal is final until the request or the key changes. */
function isFinal(problem: unknown): boolean {
  const status = (problem as { status?: unknown } | null)?.status;
  return typeof status === "number" && status >= 400 && status < 500 && status !== 429;
}

/** Runs until the stream ends. The reason of a failure is found by the list request, which fails too. */
async function readStream(
  client: HumanWaitsClient,
  after: string | undefined,
  onEvents: (events: readonly InboxEvent[]) => void,
  signal: AbortSignal,
): Promise<void> {
  // Separate, to distinguish the watchdog from an abort by the caller.
  const stop = new AbortController();
  const end = () => stop.abort();
  signal.addEventListener("abort", end, { once: true });
  let watchdog = setTimeout(end, FIRST_EVENT_MS);
  try {
    const { body } = await client.watch(after, stop.signal);
    if (!body) return;
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      const events = blocks.map(eventIn).filter((event) => event !== null);
      if (events.length === 0) continue;
      clearTimeout(watchdog);
      watchdog = setTimeout(end, SILENCE_MS);
      onEvents(events);
    }
  } catch {
    // Broken, refused, or silent for too long.
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", end);
    stop.abort();
  }
}

/** One event of a text/event-stream; null for a comment. */
export function eventIn(block: string): InboxEvent | null {
  const fields = new Map<string, string>();
  for (const line of block.split(/\r?\n/)) {
    const [, name, value = ""] = /^(\w+)(?:: ?(.*))?$/.exec(line) ?? [];
    if (name)
      fields.set(name, name === "data" && fields.has("data") ? `${fields.get("data")}\n${value}` : value);
  }
  const data = fields.get("data");
  if (data === undefined) return null;
  return { event: fields.get("event") ?? "message", id: fields.get("id"), data: JSON.parse(data) };
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    signal.addEventListener("abort", finish);
    if (signal.aborted) finish();
  });
}
