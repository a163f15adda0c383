/** What the screen of a schedule reads. */
import { useMemo } from "react";
import { api, type Schemas } from "../../api/client";
import { useRead } from "../../api/queries";
import type { Spec } from "../../schedules/schedule";
import { secondsOf } from "../../schedules/schedule";
import { previewSchedule, readSchedule } from "../../schedules/scheduleApi";
import { NO_TENANT, type ScheduleRef } from "../../schedules/scheduleRef";
import type { ScheduleRun } from "./occurrences";

const EVERY_MS = 3_000;
export const MOST_COMING = 1_000;
export const MOST_RUNS = 500;
const RECENT = 50;

export function useSchedule(ref: ScheduleRef) {
  return useRead(["schedule", ref.id, ref.tenant], (signal) => readSchedule(ref, signal), {
    every: EVERY_MS,
  });
}

export type RunRow = Schemas["RunPage"]["items"][number] & ScheduleRun;

/** Of this tenant: for an operator, others may have a schedule of the same name. */
function useRuns({ id, tenant }: ScheduleRef, period: { from: number; to: number } | null) {
  const { data } = useRead(
    ["schedule-runs", id, period?.from, period?.to],
    (signal) =>
      api.GET("/runs", {
        params: {
          query: {
            cause: `schedule:${id}`,
            sort: "submitted_at",
            paged: true,
            limit: period ? MOST_RUNS : RECENT,
            ...(period && { submitted_after: period.from, submitted_before: period.to }),
          },
        },
        signal,
      }),
    { every: EVERY_MS, keep: true },
  );
  const items = (data as { items: RunRow[] } | undefined)?.items;
  return useMemo(() => items?.filter((run) => (run.tenant_id ?? NO_TENANT) === tenant), [items, tenant]);
}

/** The newest runs. */
export const useRecentRuns = (ref: ScheduleRef): RunRow[] | undefined => useRuns(ref, null);

/** The runs that were submitted within a period, newest first. */
export const useRunsWithin = (ref: ScheduleRef, from: number, to: number): RunRow[] =>
  useRuns(ref, { from, to }) ?? NONE;

const NONE: RunRow[] = [];

/** The occurrences after a moment, in unix seconds. */
export function useComing(spec: Spec, after: number, enabled: boolean): number[] {
  const json = JSON.stringify({ spec, after, n: MOST_COMING });
  const { data } = useRead(["schedule", "coming", json], (signal) => previewSchedule(json, signal), {
    enabled,
    keep: true,
  });
  return (data?.times ?? []).map(secondsOf);
}
