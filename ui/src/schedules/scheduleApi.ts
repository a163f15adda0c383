/** The endpoints of schedules. */
import { api, type Schemas } from "../api/client";
import { parseJson } from "../lib/exactJson";
import type { Schedule } from "./schedule";
import type { ScheduleRef } from "./scheduleRef";

const named = ({ id, tenant }: ScheduleRef) => ({
  path: { schedule_id: id },
  query: tenant ? { tenant } : {},
});

/** With the same key a repeated request has no further effect. */
const keyed = (ref: ScheduleRef, key: string) => ({ ...named(ref), header: { "Idempotency-Key": key } });

/** Sends a JSON text as it is, so that long numbers of params stay as they were typed. */
const asTyped = <T>(json: string) => ({ body: {} as T, bodySerializer: () => json });

/** With the names and values of `apiQuery`. */
export const readSchedules = (query: URLSearchParams, signal: AbortSignal) =>
  api.GET("/schedules", {
    params: { query: Object.fromEntries(query) as Record<string, never> },
    signal,
  });

/** Long numbers of its params stay exact. */
export async function readSchedule(ref: ScheduleRef, signal?: AbortSignal): Promise<{ data: Schedule }> {
  const { data } = await api.GET("/schedules/{schedule_id}", { params: named(ref), signal, parseAs: "text" });
  return { data: parseJson(data ?? "null") as Schedule };
}

export const createSchedule = (json: string, key: string) =>
  api.POST("/schedules", {
    params: { header: { "Idempotency-Key": key } },
    ...asTyped<Schemas["ScheduleRequest"]>(json),
  });

export const changeSchedule = (ref: ScheduleRef, json: string) =>
  api.PATCH("/schedules/{schedule_id}", {
    params: named(ref),
    ...asTyped<Schemas["SchedulePatch"]>(json),
  });

export const deleteSchedule = (ref: ScheduleRef) =>
  api.DELETE("/schedules/{schedule_id}", { params: named(ref) });

export const pauseSchedule = (ref: ScheduleRef, note: string) =>
  api.POST("/schedules/{schedule_id}/pause", { params: named(ref), body: { note } });

export const resumeSchedule = (ref: ScheduleRef) =>
  api.POST("/schedules/{schedule_id}/resume", { params: named(ref), body: {} });

export const triggerSchedule = (ref: ScheduleRef, json: string, key: string) =>
  api.POST("/schedules/{schedule_id}/trigger", {
    params: keyed(ref, key),
    ...asTyped<Schemas["TriggerRequest"]>(json),
  });

export const backfillSchedule = (ref: ScheduleRef, body: Schemas["BackfillRequest"], key: string) =>
  api.POST("/schedules/{schedule_id}/backfill", { params: keyed(ref, key), body });

export const readBackfills = (ref: ScheduleRef, signal: AbortSignal) =>
  api.GET("/schedules/{schedule_id}/backfills", { params: named(ref), signal });

export function cancelBackfill(ref: ScheduleRef, backfill: string) {
  const { path, query } = named(ref);
  return api.DELETE("/schedules/{schedule_id}/backfills/{backfill_id}", {
    params: { path: { ...path, backfill_id: backfill }, query },
  });
}

/** A dry run: nothing is started. */
export const countBackfill = (ref: ScheduleRef, body: Schemas["BackfillRequest"]) =>
  api.POST("/schedules/{schedule_id}/backfill", { params: named(ref), body: { ...body, dry_run: true } });

export const previewSchedule = (json: string, signal: AbortSignal) =>
  api.POST("/schedules/preview", { ...asTyped<Schemas["PreviewRequest"]>(json), signal });
