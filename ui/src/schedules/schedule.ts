/** A schedule as the API has it. Moments are unix seconds. */
import type { Schemas } from "../api/client";

export type Spec = Schemas["SpecView"];
/** The gateway leaves out what is at its default. */
export type Decision = Partial<Schemas["ScheduleDecision"]> &
  Pick<Schemas["ScheduleDecision"], "at" | "outcome" | "scheduled_for">;
export type Overlap = Schemas["Overlap"];
export type ScheduleItem = Schemas["ScheduleItem"];
export type Schedule = Omit<Schemas["ScheduleView"], "params" | "decisions"> & {
  params: Record<string, unknown>;
  /** The newest last. */
  decisions: Decision[];
};

export const OVERLAPS = [
  "skip",
  "buffer_one",
  "buffer_all",
  "cancel_other",
  "terminate_other",
  "allow_all",
] as const satisfies readonly Overlap[];

export const EMPTY_SPEC: Spec = {
  cron: [],
  every_sec: null,
  anchor: null,
  at: [],
  timezone: "UTC",
  start_at: null,
  end_at: null,
  jitter_sec: 0,
  exclude: [],
};

/** Unix seconds of an ISO 8601 time. */
export const secondsOf = (time: string): number => Date.parse(time) / 1000;
