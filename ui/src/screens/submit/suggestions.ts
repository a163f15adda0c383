/** Suggestions: the flows of the catalogue, and tags of workers. */
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { readFlows } from "../../flows/flowApi";
import { jsonText, parseJson } from "../../lib/exactJson";

const MOST = 1000;

/** Those that a live worker has: a typo of an earlier run is not suggested. */
export function useFlowSuggestions(): string[] {
  const { data } = useRead(["flows", "names"], (signal) => readFlows({ limit: MOST }, signal), {
    every: 10_000,
  });
  return (data?.flows ?? []).filter(({ workers }) => workers > 0).map(({ name }) => name);
}

export interface ServedTags {
  tags: string[];
  /** Whether no worker serves a tag, as far as that is known. */
  isUnserved: (tag: string) => boolean;
}

export function useServedTags(): ServedTags {
  const { data } = useRead(["workers", "tags"], (signal) => api.GET("/workers", { signal }), {
    every: 10_000,
  });
  const tags = [...new Set((data ?? []).flatMap((worker) => worker.tags))].sort();
  return { tags, isUnserved: (tag) => data !== undefined && tag.trim() !== "" && !tags.includes(tag.trim()) };
}

/** The params of the newest run of a flow, as text; null: there is none. */
export async function lastParams(flow: string): Promise<string | null> {
  const query = { flow, limit: 1, include: ["full"] as "full"[] };
  const { data } = await api.GET("/runs", { params: { query }, parseAs: "text" });
  const [run] = parseJson(data ?? "[]") as { run_id: string; params?: unknown; params_sha256?: string }[];
  if (!run) return null;
  return jsonText((run.params_sha256 ? await wholeParams(run.run_id) : run.params) ?? {}, 2);
}

/** A list has only the beginning of large params. */
async function wholeParams(id: string): Promise<unknown> {
  const params = { path: { run_id: id }, query: { include: ["full"] as "full"[] } };
  const { data } = await api.GET("/runs/{run_id}", { params, parseAs: "text" });
  return (parseJson(data ?? "{}") as { params?: unknown }).params;
}
