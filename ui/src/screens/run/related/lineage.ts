/** The runs that a run comes from, and the runs that come from one. */
import { api } from "../../../api/client";
import { Problem } from "../../../api/problem";
import { useRead } from "../../../api/queries";
import type { Run } from "../run";

export interface RelatedRun {
  run_id: string;
  flow_name: string;
  status: string;
  submitted_at: number | null;
}
interface Ancestor extends RelatedRun {
  origin_run_id: string | null;
}
export interface Children {
  runs: readonly RelatedRun[];
  /** Of all, also those that are not shown. */
  total: number;
}

/** Of one run; more are in the list of runs. */
const MOST_CHILDREN = 20;
/** Reruns of reruns of reruns. */
const MOST_ANCESTORS = 12;
const EVERY_MS = 10_000;
const NOT_FOUND = 404;

/** From the first run to the one that this run repeats. Runs that were removed end it. */
export function useAncestors(run: Run) {
  const { data } = useRead(
    ["ancestors", run.run_id],
    async (signal) => {
      const found: RelatedRun[] = [];
      let id: string | null = run.origin_run_id ?? null;
      while (id && found.length < MOST_ANCESTORS) {
        const next: Ancestor | null = await readRun(id, signal);
        if (!next) break;
        found.unshift(next);
        id = next.origin_run_id;
      }
      return { data: found };
    },
    { enabled: run.origin_run_id != null },
  );
  return data ?? [];
}

async function readRun(id: string, signal: AbortSignal): Promise<Ancestor | null> {
  try {
    const { data } = await api.GET("/runs/{run_id}", { params: { path: { run_id: id } }, signal });
    return data ? { ...data, submitted_at: data.submitted_at ?? null } : null;
  } catch (error) {
    if (Problem.from(error).status === NOT_FOUND) return null;
    throw error;
  }
}

/** The reruns of a run, the oldest first; `live`: also those that are submitted later. */
export function useReruns(id: string, { enabled = true, live = false } = {}): Children | null {
  const { data } = useRead(
    ["reruns-of", id],
    (signal) =>
      api.GET("/runs", {
        params: {
          query: { origin: id, sort: "submitted_at", order: "asc", limit: MOST_CHILDREN, total: true },
        },
        signal,
      }),
    { enabled, every: live ? EVERY_MS : undefined },
  );
  if (!data || Array.isArray(data)) return null;
  return { runs: data.items as RelatedRun[], total: data.total ?? data.items.length };
}

/** How many runs have the same cause. */
export function useSameCause(cause: string | null): number | null {
  const { data } = useRead(
    ["same-cause", cause],
    (signal) =>
      api.GET("/runs", { params: { query: { cause: cause ?? "", limit: 1, total: true } }, signal }),
    { enabled: cause !== null },
  );
  return data && !Array.isArray(data) ? (data.total ?? null) : null;
}
