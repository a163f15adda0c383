/** The number of matching runs, in total and by status. */
import { type Schemas, send } from "../../api/client";
import { queryClient, useRead } from "../../api/queries";
import { RUN_STATUSES, type RunStatus } from "../../ui/status";

export interface Count {
  count: number;
  exact: boolean;
}
export interface Counts {
  matching: Count;
  byStatus: Record<RunStatus, Count>;
}

const KEY = "run-counts";
const REFRESH_MS = 2_000;

async function countRuns(filter: URLSearchParams, signal: AbortSignal): Promise<Count> {
  const query = new URLSearchParams(filter);
  query.set("limit", "1");
  query.set("total", "true");
  const answer = await send(new Request(new URL(`/runs?${query}`, location.origin), { signal }));
  const page = (await answer.json()) as Schemas["RunPage"];
  return { count: page.total ?? 0, exact: page.total_exact ?? true };
}

async function countAll(filter: string, signal: AbortSignal): Promise<{ data: Counts }> {
  const query = new URLSearchParams(filter);
  const chosen = query.getAll("status");
  query.delete("status");
  const entries = await Promise.all(
    RUN_STATUSES.map(async (status) => {
      const of = new URLSearchParams(query);
      of.set("status", status);
      return [status, await countRuns(of, signal)] as const;
    }),
  );
  const counted = entries.filter(([status]) => chosen.length === 0 || chosen.includes(status));
  const matching = {
    count: counted.reduce((sum, [, { count }]) => sum + count, 0),
    exact: counted.every(([, { exact }]) => exact),
  };
  return { data: { matching, byStatus: Object.fromEntries(entries) as Counts["byStatus"] } };
}

/** After the list itself (`after`), which is more important. */
export function useCounts(filter: string, after: boolean): Counts | undefined {
  return useRead([KEY, filter], (signal) => countAll(filter, signal), { keep: true, enabled: after }).data;
}

let counting: ReturnType<typeof setTimeout> | undefined;

/** Count again soon, but not for each of many changes. */
export function refreshCounts(): void {
  if (counting !== undefined) return;
  counting = setTimeout(() => {
    counting = undefined;
    void queryClient.invalidateQueries({ queryKey: [KEY] });
  }, REFRESH_MS);
}
