/** Months as `YYYY-MM`. */

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
