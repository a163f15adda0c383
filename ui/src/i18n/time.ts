/** Moments, durations and ages as text. Moments are unix seconds, as in the API.
 *
 * The CLI writes them the same way (src/pyoco_server/records/moments.py).
 */
import { currentLanguage, type Language } from "./language";

const SECONDS = { y: 31_536_000, mo: 2_592_000, d: 86_400, h: 3_600, m: 60, s: 1 } as const;
type Unit = keyof typeof SECONDS;
const LARGEST_FIRST: readonly Unit[] = ["y", "mo", "d", "h", "m", "s"];
const PAIRS = [
  ["d", "h"],
  ["h", "m"],
  ["m", "s"],
] as const;
const SIGNS: Record<Language, Record<Unit, string> & { gap: string }> = {
  en: { y: "y", mo: "mo", d: "d", h: "h", m: "m", s: "s", gap: " " },
  ja: { y: "年", mo: "か月", d: "日", h: "時間", m: "分", s: "秒", gap: "" },
};

/** Cached: creating a formatter is far slower than using it. */
const exactIn = (language: Language) =>
  new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });
const exact = { en: exactIn("en"), ja: exactIn("ja") };

/** "4m ago", "in 4m", "4分前"; null for less than two seconds. */
export function relativeTime(moment: number, now: number, language: Language): string | null {
  const seconds = Math.round(moment - now);
  if (Math.abs(seconds) < 2) return null;
  const rough = roughDuration(Math.abs(seconds), language);
  if (language === "ja") return `${rough}${seconds < 0 ? "前" : "後"}`;
  return seconds < 0 ? `${rough} ago` : `in ${rough}`;
}

/** In its largest unit, rounded down: "4m", "4分". */
function roughDuration(seconds: number, language: Language): string {
  const unit = LARGEST_FIRST.find((each) => seconds >= SECONDS[each]) ?? "s";
  return `${Math.floor(seconds / SECONDS[unit])}${SIGNS[language][unit]}`;
}

/** With seconds and time zone: "Nov 18, 2026, 18:02:31 UTC". */
export function exactTime(moment: number, language: Language): string {
  return exact[language].format(moment * 1000);
}

/** "2026-11-18 18:02:31", to be quoted and compared: in this browser's time zone. */
export function momentText(moment: number): string {
  const at = new Date(moment * 1000);
  const two = (number: number) => String(number).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  return `${day} ${clockTime(moment)}`;
}

/** "18:02:31" */
export function clockTime(moment: number): string {
  const at = new Date(moment * 1000);
  const two = (number: number) => String(number).padStart(2, "0");
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
}

/** "2s", "2秒". */
export const wholeSeconds = (seconds: number, language: Language = currentLanguage()): string =>
  `${Math.round(seconds)}${SIGNS[language].s}`;

/** "611ms", "1.5s", "12s", "4m 0s", "2h 5m", "3d 4h"; in Japanese "4分0秒". */
export function duration(seconds: number, language: Language = currentLanguage()): string {
  const signs = SIGNS[language];
  if (seconds > 0 && seconds < 0.9995) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 9.95) return `${Number(Math.max(0, seconds).toFixed(1))}${signs.s}`;
  const whole = Math.round(seconds);
  for (const [unit, lower] of PAIRS) {
    if (whole < SECONDS[unit]) continue;
    const rest = Math.floor((whole % SECONDS[unit]) / SECONDS[lower]);
    return `${Math.floor(whole / SECONDS[unit])}${signs[unit]}${signs.gap}${rest}${signs[lower]}`;
  }
  return `${whole}${signs.s}`;
}

/** In full and without zero parts, for configured intervals and scales: "15m", "1h 30m", "2m 0.5s". */
export function interval(seconds: number, language: Language = currentLanguage()): string {
  const signs = SIGNS[language];
  if (seconds > 0 && seconds < 1) return `${Number((seconds * 1000).toFixed(3))}ms`;
  let rest = Number(seconds.toFixed(3));
  const parts: string[] = [];
  for (const unit of ["d", "h", "m"] as const) {
    const count = Math.floor(rest / SECONDS[unit]);
    if (count > 0) parts.push(`${count}${signs[unit]}`);
    rest -= count * SECONDS[unit];
  }
  if (rest > 0 || parts.length === 0) parts.push(`${Number(rest.toFixed(3))}${signs.s}`);
  return parts.join(signs.gap);
}
