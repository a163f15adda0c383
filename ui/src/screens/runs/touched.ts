/** Which runs an action touches: only those that go on are cancelled, and only those that ended are rerun. */
import { isTerminal, RUN_STATUSES } from "../../ui/status";

export type BulkAction = "cancel" | "rerun";

export const isTouched = (action: BulkAction, status: string): boolean =>
  action === "rerun" ? isTerminal(status) : !isTerminal(status) && status !== "CANCELLING";

/** The filter for the runs that are touched among those that match; null: none can be. */
export function touchedBy(action: BulkAction, filter: string): string | null {
  const query = new URLSearchParams(filter);
  const chosen = query.getAll("status");
  const statuses = RUN_STATUSES.filter(
    (status) => isTouched(action, status) && (chosen.length === 0 || chosen.includes(status)),
  );
  if (statuses.length === 0) return null;
  query.delete("status");
  for (const status of statuses) query.append("status", status);
  return query.toString();
}

/** How many runs there are of each flow, most first. */
export function byFlow(runs: readonly { flow_name: string }[]): [flow: string, count: number][] {
  const counts = new Map<string, number>();
  for (const { flow_name } of runs) counts.set(flow_name, (counts.get(flow_name) ?? 0) + 1);
  return [...counts].sort(([a, many], [b, more]) => more - many || a.localeCompare(b));
}
