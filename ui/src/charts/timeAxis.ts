/** Scale and labels of charts over time. Times are unix seconds. */
import type { Language } from "../i18n/language";

const DAY_SEC = 86_400;

/** The next round number whose half is a whole one: 2, 4, 6, 8, 10, 12, 14, 16, 20, 30, 40, 50, 60, 80, 100, 120. */
export function roundedUp(most: number): number {
  if (most <= 10) return Math.max(2, 2 * Math.ceil(most / 2));
  const power = 10 ** (Math.ceil(Math.log10(most)) - 2);
  const step = [12, 14, 16, 20, 30, 40, 50, 60, 80].find((each) => each * power >= most) ?? 100;
  return step * power;
}

const MINUTES_AND_HOURS = [60, 120, 240, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400];

/** The next round duration in seconds. */
export function roundedUpDuration(seconds: number): number {
  if (seconds < 1) return roundedUp(seconds * 1000) / 1000;
  if (seconds <= 60) return Math.min(60, roundedUp(seconds));
  const found = MINUTES_AND_HOURS.find((each) => each >= seconds);
  return found ?? roundedUp(seconds / DAY_SEC) * DAY_SEC;
}

/** The indexes of intervals with a label: about `wanted` of them, at round times if there are any. */
export function labelled(starts: readonly number[], intervalSec: number, wanted: number): number[] {
  const span = starts.length * intervalSec;
  const steps = [300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, DAY_SEC, 2 * DAY_SEC];
  const step = steps.find((each) => span / each <= wanted) ?? 2 * DAY_SEC;
  const zone = new Date((starts[0] ?? 0) * 1000).getTimezoneOffset() * 60;
  const round = starts.flatMap((at, number) => ((at - zone) % step === 0 ? [number] : []));
  if (round.length > 0 && round.length <= wanted) return round;
  // Days of UTC may begin at no round time of this zone, and a month has too many.
  const each = Math.ceil(starts.length / wanted);
  return starts.flatMap((_, number) => (number % each === 0 ? [number] : []));
}

const DAY = { month: "numeric", day: "numeric" } as const;
const HOUR = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;

/** A label of the time axis: a day in a chart of several days, else the time of the day. */
export const timeLabel = (at: number, spanSec: number, language: Language): string =>
  new Date(at * 1000).toLocaleString(language, spanSec > 3 * DAY_SEC ? DAY : HOUR);

/** "Nov 17 09:00–09:30"; of a day or more with the day of its end too. */
export function intervalLabel(at: number, intervalSec: number, language: Language): string {
  const day = { month: "short", day: "numeric" } as const;
  const begin = new Date(at * 1000);
  const end = new Date((at + intervalSec) * 1000);
  const first = `${begin.toLocaleDateString(language, day)} ${begin.toLocaleTimeString(language, HOUR)}`;
  const last = end.toLocaleTimeString(language, HOUR);
  return intervalSec < DAY_SEC
    ? `${first}–${last}`
    : `${first} – ${end.toLocaleDateString(language, day)} ${last}`;
}
