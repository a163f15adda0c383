/** The open questions as a pure function of inbox events. */
import type { HumanWait, WaitingRun } from "./types.js";

export type OpenWaits = ReadonlyMap<string, HumanWait>;

export interface InboxEvent {
  event: string;
  id?: string;
  data: unknown;
}

export const openWaits = (waits: readonly HumanWait[]): OpenWaits =>
  new Map(waits.filter(({ state }) => state === "open").map((wait) => [wait.wait_id, wait]));

/** Applies several events at once. */
export function withEvents(before: OpenWaits, events: readonly InboxEvent[]): OpenWaits {
  let after: Map<string, HumanWait> | null = null;
  for (const { event, data } of events) {
    if (event === "open") after = new Map(openWaits((data as { waits: HumanWait[] }).waits));
    if (event !== "opened" && event !== "closed") continue;
    const { wait } = data as { wait: HumanWait };
    after ??= new Map(before);
    if (event === "opened" && wait.state === "open") after.set(wait.wait_id, wait);
    else after.delete(wait.wait_id);
  }
  return after ?? before;
}

export function without(before: OpenWaits, waitId: string): OpenWaits {
  const after = new Map(before);
  return after.delete(waitId) ? after : before;
}

/** The waiting runs, the next deadline first, each with its questions in the same order. */
export function runsOf(waits: OpenWaits): WaitingRun[] {
  const runs = new Map<string, WaitingRun>();
  const inOrder = [...waits.values()].sort(
    (a, b) => a.deadline_at - b.deadline_at || a.wait_id.localeCompare(b.wait_id),
  );
  for (const wait of inOrder) {
    const run = runs.get(wait.run_id);
    if (run) run.waits.push(wait);
    else
      runs.set(wait.run_id, {
        id: wait.run_id,
        run_id: wait.run_id,
        status: "waiting_human",
        flow_name: wait.flow_name,
        wait_message: wait.message,
        wait_deadline_at: wait.deadline_at,
        waits: [wait],
      });
  }
  return [...runs.values()];
}
