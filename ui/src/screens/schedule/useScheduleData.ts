/** What the screen of a schedule reads. */
import { useMemo } from "react";
import { api, type Schemas } from "../../api/client";
import { useRead } from "../../api/queries";
import { NO_TENANT } from "../../app/tenantRef";
import type { Spec } from "../../schedules/schedule";
import { secondsOf } from "../../schedules/schedule";
import { previewSchedule, readBackfills, readSchedule } from "../../schedules/scheduleApi";
import type { ScheduleRef } from "../../schedules/scheduleRef";
import type { ScheduleRun } from "./occurrences";

const EVERY_MS = 3_000;
/** A month has more runs; the newest are read anyway. */
const MONTH_EVERY_MS = 15_000;
export const MOST_COMING = 1_000;
export const MOST_RUNS = 1_000;
const MOST_PER_PAGE = 200;
const RECENT = 50;

export function useSchedule(ref: ScheduleRef) {
  return useRead(["schedule", ref.id, ref.tenant], (signal) => readSchedule(ref, signal), {
    every: EVERY_MS,
  });
}

/** The backfills in progress, while there are any. */
export function useBackfills(ref: ScheduleRef, enabled: boolean): Schemas["BackfillItem"][] {
  const { data } = useRead(
    ["schedule", "backfills", ref.id, ref.tenant],
    (signal) => readBackfills(ref, signal),
    { every: EVERY_MS, enabled },
  );
  return enabled ? (data?.items ?? []) : [];
}

export type RunRow = Schemas["RunPage"]["items"][number] & ScheduleRun;

type Period = { submitted_after: number; submitted_before: number };

/** The newest runs of a schedule, as many pages as it takes. */
async function readRuns(id: string, most: number, period: Period | null, signal: AbortSignal) {
  const found: RunRow[] = [];
  let cursor: string | null = null;
  do {
    const limit = Math.min(most, MOST_PER_PAGE);
    const query = { cause: `schedule:${id}`, sort: "submitted_at" as const, paged: true, limit, ...period };
    const { data } = await api.GET("/runs", {
      params: { query: { ...query, ...(cursor && { cursor }) } },
      signal,
    });
    const page = data as { items: RunRow[]; next_cursor: string | null };
    found.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && found.length < most);
  return { data: found };
}

/** Of this tenant: for an operator, others may have a schedule of the same name. */
function useRuns({ id, tenant }: ScheduleRef, most: number, period: Period | null) {
  const { data, error } = useRead(
    ["schedule-runs", id, period?.submitted_after, period?.submitted_before],
    (signal) => readRuns(id, most, period, signal),
    { every: period ? MONTH_EVERY_MS : EVERY_MS, keep: true },
  );
  const runs = useMemo(() => data?.filter((run) => (run.tenant_id ?? NO_TENANT) === tenant), [data, tenant]);
  return { runs, error };
}

export const useRecentRuns = (ref: ScheduleRef) => useRuns(ref, RECENT, null);

/** The runs that were submitted within a period, newest first. */
export const useRunsWithin = (ref: ScheduleRef, from: number, to: number) =>
  useRuns(ref, MOST_RUNS, { submitted_after: from, submitted_before: to });

/** The occurrences after a moment, in unix seconds. */
export function useComing(spec: Spec, after: number, enabled: boolean): number[] {
  const json = JSON.stringify({ spec, after, n: MOST_COMING });
  const { data } = useRead(["schedule", "coming", json], (signal) => previewSchedule(json, signal), {
    enabled,
    keep: true,
  });
  return (data?.times ?? []).map(secondsOf);
}
