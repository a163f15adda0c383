/** Months as `YYYY-MM`. */
import type { Language } from "../../i18n/language";

/** How many months before this one can be selected. */
const EARLIER = 24;

const text = (year: number, month: number): string =>
  `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}`;

export const monthOf = (date: Date): string => text(date.getFullYear(), date.getMonth() + 1);

export const isMonth = (text: string): boolean => /^\d{4}-(0[1-9]|1[0-2])$/.test(text);

/** So many months later; a text that is no month stays as it is. */
export function shifted(ym: string, by: number): string {
  const [, year, month] = /^(\d{4})-(\d{2})$/.exec(ym) ?? [];
  if (!year || !month) return ym;
  const months = Number(year) * 12 + Number(month) - 1 + by;
  return text(Math.floor(months / 12), (months % 12) + 1);
}

/** "November 2026", "2026年11月". */
export function monthName(ym: string, language: Language): string {
  const [year, month] = ym.split("-").map(Number);
  const day = new Date(Date.UTC(year ?? 0, (month ?? 1) - 1, 1));
  return day.toLocaleDateString(language, { year: "numeric", month: "long", timeZone: "UTC" });
}

/** Those of the last two years, newest first, and the given one. */
export function monthsAround(ym: string, now: string): string[] {
  const recent = Array.from({ length: EARLIER + 1 }, (_, at) => shifted(now, -at));
  if (!isMonth(ym) || recent.includes(ym)) return recent;
  return [...recent, ym].sort().reverse();
}
