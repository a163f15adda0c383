/** Suggestions: recently run flows, and tags of workers. */
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { jsonText, parseJson } from "../../lib/exactJson";

const RECENT = 200;

export function useFlowSuggestions(): string[] {
  const { data } = useRead(["runs", "known-flows"], (signal) =>
    api.GET("/runs", { params: { query: { limit: RECENT, sort: "submitted_at" } }, signal }),
  );
  const runs = Array.isArray(data) ? data : [];
  return [...new Set(runs.map((run) => run.flow_name))].sort();
}

export interface ServedTags {
  tags: string[];
  /** Whether it is loaded. */
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

/** The params of the newest run of a flow, as text; null: there is none. */
export async function lastParams(flow: string): Promise<string | null> {
  const query = { flow, limit: 1, include: ["full"] as "full"[] };
  const { data } = await api.GET("/runs", { params: { query }, parseAs: "text" });
  const [run] = parseJson(data ?? "[]") as { params?: unknown }[];
  return run ? jsonText(run.params ?? {}, 2) : null;
}
