/** Moments in a time zone. Moments are unix seconds. */
import type { Language } from "../i18n/language";

export const viewerZone: string = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The browser may not know a zone that the gateway knows. */
export function isKnownZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

export const usableZone = (zone: string): string => (isKnownZone(zone) ? zone : "UTC");

const cache = new Map<string, Intl.DateTimeFormat>();

/** Cached: creating a formatter is far slower than using it. */
function formatter(key: string, make: () => Intl.DateTimeFormat): Intl.DateTimeFormat {
  const known = cache.get(key) ?? make();
  cache.set(key, known);
  return known;
}

/** Whether a time has to be shown with its seconds. Times in one list are alike: all or none. */
export const hasSeconds = (at: number): boolean => Math.round(at) % 60 !== 0;

interface TimeOptions {
  /** Without the zone. */
  bare?: boolean;
  /** Default: if there are any. */
  seconds?: boolean;
}

/** "Wed, Nov 18, 02:00 GMT+9"; with the year if it is another one. */
export function zonedTime(
  at: number,
  zone: string,
  language: Language,
  { bare = false, seconds = hasSeconds(at) }: TimeOptions = {},
): string {
  const year = dayOf(at, zone).slice(0, 4) !== dayOf(Date.now() / 1000, zone).slice(0, 4);
  return formatter(`time ${language} ${zone} ${seconds} ${year} ${bare}`, () => {
    return new Intl.DateTimeFormat(language, {
      timeZone: usableZone(zone),
      weekday: "short",
      month: "short",
      day: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
      ...(!bare && { timeZoneName: "short" as const }),
      ...(year && { year: "numeric" as const }),
      ...(seconds && { second: "2-digit" as const }),
    });
  }).format(at * 1000);
}

interface ClockOptions {
  /** Default: if there are any. */
  seconds?: boolean;
  /** "Tue 02:00". */
  weekday?: boolean;
}

/** "02:00", or with seconds "02:00:30". */
export function clockTime(
  at: number,
  zone: string,
  language: Language,
  { seconds = hasSeconds(at), weekday = false }: ClockOptions = {},
): string {
  return formatter(`clock ${language} ${zone} ${seconds} ${weekday}`, () => {
    return new Intl.DateTimeFormat(language, {
      timeZone: usableZone(zone),
      ...(weekday && { weekday: "short" as const }),
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
      ...(seconds && { second: "2-digit" as const }),
    });
  }).format(at * 1000);
}

/** A day of the calendar: `2026-11-17`. */
export type Day = string;

export function dayOf(at: number, zone: string): Day {
  return formatter(`day ${zone}`, () => {
    return new Intl.DateTimeFormat("en-CA", {
      timeZone: usableZone(zone),
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
    });
  }).format(at * 1000);
}

const parts = (day: Day): [number, number, number] => {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return [year, month, date];
};
const utc = (day: Day): Date => {
  const [year, month, date] = parts(day);
  return new Date(Date.UTC(year, month - 1, date));
};
const dayText = (date: Date): Day => date.toISOString().slice(0, 10);

export function addDays(day: Day, count: number): Day {
  const date = utc(day);
  date.setUTCDate(date.getUTCDate() + count);
  return dayText(date);
}

/** The first day of the month that is `count` months later. */
export function addMonths(day: Day, count: number): Day {
  const [year, month] = parts(day);
  return dayText(new Date(Date.UTC(year, month - 1 + count, 1)));
}

/** The weeks of a month, from Monday; with days of its neighbours. */
export function weeksOf(month: Day): Day[][] {
  const first = `${month.slice(0, 7)}-01`;
  const next = addMonths(first, 1);
  const weeks: Day[][] = [];
  let day = addDays(first, -((utc(first).getUTCDay() + 6) % 7));
  while (day < next) {
    const from = day;
    weeks.push(Array.from({ length: 7 }, (_, index) => addDays(from, index)));
    day = addDays(day, 7);
  }
  return weeks;
}

/** The first moment of a day; where daylight saving skips midnight, the moment after it. */
export function startOfDay(day: Day, zone: string): number {
  const wanted = utc(day).getTime() / 1000;
  // The offset at the guess, and once more: the first guess may be on the other side of a change.
  const once = wanted - offsetAt(wanted, zone);
  return wanted - offsetAt(once, zone);
}

/** Seconds that the zone is ahead of UTC. */
function offsetAt(at: number, zone: string): number {
  const shown = formatter(`offset ${zone}`, () => {
    return new Intl.DateTimeFormat("en-US", {
      timeZone: usableZone(zone),
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  }).formatToParts(at * 1000);
  const get = (type: string) => Number(shown.find((part) => part.type === type)?.value);
  const local = Date.UTC(
    get("year"),
    get("month") - 1,
    get("day"),
    get("hour"),
    get("minute"),
    get("second"),
  );
  return local / 1000 - Math.floor(at);
}

const pad = (value: number, width = 2) => String(Math.trunc(value)).padStart(width, "0");

/** As a `datetime-local` input shows it: `2026-11-18T02:00`, with seconds if there are any. */
export function localText(at: number, zone: string): string {
  const whole = Math.floor(at);
  const text = new Date((whole + offsetAt(whole, zone)) * 1000).toISOString();
  return text.slice(0, whole % 60 === 0 ? 16 : 19);
}

/** ISO 8601 with the offset: `2026-11-18T02:00+09:00`. */
export function isoText(at: number, zone: string): string {
  const minutes = Math.round(offsetAt(Math.floor(at), zone) / 60);
  const size = Math.abs(minutes);
  return `${localText(at, zone)}${minutes < 0 ? "-" : "+"}${pad(size / 60)}:${pad(size % 60)}`;
}

export function dayTitle(day: Day, language: Language): string {
  return formatter(`title ${language}`, () => {
    return new Intl.DateTimeFormat(language, {
      timeZone: "UTC",
      weekday: "long",
      month: "long",
      day: "numeric",
    });
  }).format(utc(day));
}

export function monthTitle(day: Day, language: Language): string {
  return formatter(`month ${language}`, () => {
    return new Intl.DateTimeFormat(language, { timeZone: "UTC", month: "long", year: "numeric" });
  }).format(utc(day));
}

/** Monday to Sunday. 2024-09-02 is a Monday. */
export const weekdayTitles = (language: Language): string[] =>
  Array.from({ length: 7 }, (_, index) =>
    new Intl.DateTimeFormat(language, { timeZone: "UTC", weekday: "short" }).format(
      Date.UTC(2024, 8, 2 + index),
    ),
  );
