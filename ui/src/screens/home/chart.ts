/** Scale, labels and links of the chart of ended runs. */
import { href } from "../../app/router";
import type { Language } from "../../i18n/language";
import type { Overview } from "./warnings";

export type Window = Overview["window"];
export type Interval = Overview["ended"][number];
/** From bottom to top. */
export const ENDS = ["completed", "cancelled", "failed"] as const;
export type End = (typeof ENDS)[number];

export const countOf = (interval: Interval): number =>
  interval.completed + interval.failed + interval.cancelled;

export function sumOf(intervals: readonly Interval[]): Record<End, number> {
  const sum = { completed: 0, cancelled: 0, failed: 0 };
  for (const interval of intervals) for (const end of ENDS) sum[end] += interval[end];
  return sum;
}

/** The next round number whose half is a whole one: 2, 4, 6, 8, 10, 12, 14, 16, 20, 30, 40, 50, 60, 80, 100, 120. */
export function roundedUp(most: number): number {
  if (most <= 10) return Math.max(2, 2 * Math.ceil(most / 2));
  const power = 10 ** (Math.ceil(Math.log10(most)) - 2);
  const step = [12, 14, 16, 20, 30, 40, 50, 60, 80].find((each) => each * power >= most) ?? 100;
  return step * power;
}

/** The labels of the time axis: about `wanted` of them, at round times. */
export function labelled(intervals: readonly Interval[], intervalSec: number, wanted: number): number[] {
  const span = intervals.length * intervalSec;
  const steps = [300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800];
  const step = steps.find((each) => span / each <= wanted) ?? 172_800;
  const zone = new Date((intervals[0]?.at ?? 0) * 1000).getTimezoneOffset() * 60;
  return intervals.flatMap(({ at }, number) => ((at - zone) % step === 0 ? [number] : []));
}

export function timeLabel(at: number, window: Window, language: Language): string {
  const day = { month: "numeric", day: "numeric" } as const;
  const hour = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  return new Date(at * 1000).toLocaleString(language, window === "7d" ? day : hour);
}

export function intervalLabel(interval: Interval, intervalSec: number, language: Language): string {
  const day = { month: "short", day: "numeric" } as const;
  const hour = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  const begin = new Date(interval.at * 1000);
  const end = new Date((interval.at + intervalSec) * 1000);
  return `${begin.toLocaleDateString(language, day)} ${begin.toLocaleTimeString(language, hour)}–${end.toLocaleTimeString(language, hour)}`;
}

const STATUS_OF = { completed: "COMPLETED", cancelled: "CANCELLED", failed: "FAILED" } as const;

/** The runs with this end in the window. */
export const endedHref = (window: Window, end: End, flow?: string): string =>
  href("/runs", { status: STATUS_OF[end], since: window, flow });

/** The runs that ended in one bar, optionally with one kind of end. */
export function intervalHref(interval: Interval, intervalSec: number, end?: End): string {
  return href("/runs", {
    status: end ? STATUS_OF[end] : ["COMPLETED", "FAILED", "CANCELLED"],
    updated_after: String(interval.at),
    updated_before: String(interval.at + intervalSec),
  });
}
