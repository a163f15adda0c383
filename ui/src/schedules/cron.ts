/** A cron expression, if its shape is a common one. Others are shown as they are. */

export type CronShape =
  | { kind: "minutes"; every: number }
  | { kind: "hours"; every: number; minute: number }
  | { kind: "daily"; times: string[] }
  | { kind: "weekly"; days: number[]; times: string[] }
  | { kind: "monthly"; days: number[]; times: string[] }
  | { kind: "yearly"; month: number; day: number; times: string[] };

const NICKNAMES: Record<string, string> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};
const DAY_NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const MOST_TIMES = 3;

export function cronShape(expression: string): CronShape | null {
  const text = expression.trim().toLowerCase();
  const fields = (NICKNAMES[text] ?? text).split(/\s+/);
  if (fields.length !== 5) return null;
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = fields;
  if (day === "*" && month === "*" && weekday === "*") {
    const every = stepOf(minute, 60);
    if (every && hour === "*") return { kind: "minutes", every };
    const hours = stepOf(hour, 24);
    const [at, ...others] = numbers(minute, 0, 59) ?? [];
    if (hours && at !== undefined && others.length === 0) return { kind: "hours", every: hours, minute: at };
  }
  const times = timesOf(minute, hour);
  if (!times) return null;
  if (day === "*" && month === "*") {
    if (weekday === "*") return { kind: "daily", times };
    const days = weekdays(weekday);
    return days && { kind: "weekly", days, times };
  }
  if (weekday !== "*") return null;
  const days = numbers(day, 1, 31);
  if (!days) return null;
  if (month === "*") return { kind: "monthly", days, times };
  const months = numbers(month, 1, 12);
  const [only] = days;
  if (months?.length !== 1 || days.length !== 1 || only === undefined) return null;
  const [inMonth = 1] = months;
  return only <= daysIn(inMonth) ? { kind: "yearly", month: inMonth, day: only, times } : null;
}

/** In a leap year: 29 for February. */
const daysIn = (month: number): number => new Date(Date.UTC(2024, month, 0)).getUTCDate();

/** `*` and `*` with a step that divides the whole evenly: else the last interval is shorter. */
function stepOf(field: string, whole: number): number | null {
  if (field === "*") return 1;
  const step = Number(/^(?:\*|0-59|0-23)\/(\d+)$/.exec(field)?.[1]);
  return step > 0 && whole % step === 0 ? step : null;
}

/** Numbers and ranges separated by commas. */
function numbers(field: string, least: number, most: number): number[] | null {
  const found: number[] = [];
  for (const part of field.split(",")) {
    const [, from, to] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    if (from === undefined) return null;
    for (let each = Number(from); each <= Number(to ?? from); each++) found.push(each);
  }
  const valid = found.length > 0 && found.every((each) => each >= least && each <= most);
  return valid ? [...new Set(found)].sort((a, b) => a - b) : null;
}

function weekdays(field: string): number[] | null {
  const named = field.replace(/[a-z]+/g, (name) => {
    const at = DAY_NAMES.indexOf(name);
    return at < 0 ? name : String(at);
  });
  const days = numbers(named, 0, 7)?.map((day) => day % 7);
  return days ? [...new Set(days)].sort((a, b) => a - b) : null;
}

function timesOf(minute: string, hour: string): string[] | null {
  const minutes = numbers(minute, 0, 59);
  const hours = numbers(hour, 0, 23);
  if (!minutes || !hours || minutes.length * hours.length > MOST_TIMES) return null;
  const pad = (value: number) => String(value).padStart(2, "0");
  return hours.flatMap((each) => minutes.map((at) => `${pad(each)}:${pad(at)}`));
}
