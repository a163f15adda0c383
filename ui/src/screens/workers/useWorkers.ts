/** The workers and their runs, polled every other second. */
import { useMemo } from "react";
import { api, type Schemas } from "../../api/client";
import { useRead } from "../../api/queries";

export type RunSummary = Schemas["RunPage"]["items"][number];
export type RunsById = ReadonlyMap<string, RunSummary>;

const EVERY_MS = 2_000;
export const MAX_WORKERS = 500;
const MAX_RUNS = 200;

export function useWorkers() {
  return useRead(
    ["workers", "all"],
    (signal) =>
      api.GET("/workers", {
        params: { query: { scope: "all", include_hidden: true, limit: MAX_WORKERS } },
        signal,
      }),
    { every: EVERY_MS },
  );
}

/** Names and times of running runs; beyond this number only ids are shown. */
export function useRunningRuns(enabled: boolean): RunsById {
  const { data } = useRead(
    ["runs", "under-way"],
    (signal) =>
      api.GET("/runs", {
        params: { query: { status: ["RUNNING", "CANCELLING"], limit: MAX_RUNS, paged: true } },
        signal,
      }),
    { every: EVERY_MS, enabled },
  );
  return useMemo(() => {
    const items = (data as Schemas["RunPage"] | undefined)?.items ?? [];
    return new Map(items.map((run) => [run.run_id, run]));
  }, [data]);
}
