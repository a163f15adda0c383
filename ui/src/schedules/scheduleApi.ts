/** The endpoints of schedules. */
import { api, type Schemas } from "../api/client";
import { rawJsonBody, readExactJson } from "../api/exactBodies";
import type { Schedule } from "./schedule";
import type { ScheduleRef } from "./scheduleRef";

const named = ({ id, tenant }: ScheduleRef) => ({
  path: { schedule_id: id },
  query: tenant ? { tenant } : {},
});

/** With the same key a repeated request has no further effect. */
const keyed = (ref: ScheduleRef, key: string) => ({ ...named(ref), header: { "Idempotency-Key": key } });

/** With the names and values of `apiQuery`. */
export const readSchedules = (query: URLSearchParams, signal: AbortSignal) =>
  api.GET("/schedules", {
    params: { query: Object.fromEntries(query) as Record<string, never> },
    signal,
  });

export const readSchedule = (ref: ScheduleRef, signal?: AbortSignal) =>
  readExactJson<Schedule>(
    api.GET("/schedules/{schedule_id}", { params: named(ref), signal, parseAs: "text" }),
  );

export const createSchedule = (json: string, key: string) =>
  api.POST("/schedules", {
    params: { header: { "Idempotency-Key": key } },
    ...rawJsonBody<Schemas["ScheduleRequest"]>(json),
  });

export const changeSchedule = (ref: ScheduleRef, json: string) =>
  api.PATCH("/schedules/{schedule_id}", {
    params: named(ref),
    ...rawJsonBody<Schemas["SchedulePatch"]>(json),
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
    ...rawJsonBody<Schemas["TriggerRequest"]>(json),
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
  api.POST("/schedules/preview", { ...rawJsonBody<Schemas["PreviewRequest"]>(json), signal });
