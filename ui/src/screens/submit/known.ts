/** What can be suggested: flows that ran lately, and tags that workers serve. */
import { api } from "../../api/client";
import { useRead } from "../../api/queries";

const RECENT = 200;

export function useKnownFlows(): string[] {
  const { data } = useRead(["runs", "known-flows"], (signal) =>
    api.GET("/runs", { params: { query: { limit: RECENT, sort: "submitted_at" } }, signal }),
  );
  const runs = Array.isArray(data) ? data : [];
  return [...new Set(runs.map((run) => run.flow_name))].sort();
}

export interface ServedTags {
  tags: string[];
  /** Whether it is known. */
  known: boolean;
}

export function useServedTags(): ServedTags {
  const { data } = useRead(["workers", "tags"], (signal) => api.GET("/workers", { signal }), {
    every: 10_000,
  });
  return {
    tags: [...new Set((data ?? []).flatMap((worker) => worker.tags))].sort(),
    known: data !== undefined,
  };
}

/** The params of the newest run of a flow, as a text; null: there is none. */
export async function lastParams(flow: string): Promise<string | null> {
  const { data } = await api.GET("/runs", { params: { query: { flow, limit: 1, include: ["full"] } } });
  const [run] = (Array.isArray(data) ? data : []) as { params?: unknown }[];
  return run ? JSON.stringify(run.params ?? {}, null, 2) : null;
}
