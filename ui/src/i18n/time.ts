/** Moments and durations as text. Moments are unix seconds, as in the API. */
import { currentLanguage, type Language } from "./language";

const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
] as const;

/** Cached: creating a formatter is far slower than using it. */
const formatsIn = (language: Language) => ({
  ago: new Intl.RelativeTimeFormat(language, { numeric: "always", style: "narrow" }),
  exact: new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long" }),
});
const formats = { en: formatsIn("en"), ja: formatsIn("ja") };

/** "2 min. ago"; null for less than two seconds. */
export function relativeTime(moment: number, now: number, language: Language): string | null {
  const seconds = Math.round(moment - now);
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  if (Math.abs(seconds) < 2) return null;
  return formats[language].ago.format(Math.trunc(seconds / size), unit);
}

/** With seconds and time zone. */
export function exactTime(moment: number, language: Language): string {
  return formats[language].exact.format(moment * 1000);
}

const SIGNS = {
  en: { day: " d", hour: " h", minute: " m", second: " s", gap: " " },
  ja: { day: "日", hour: "時間", minute: "分", second: "秒", gap: "" },
};

/** "2 s", "2秒". */
export const wholeSeconds = (seconds: number, language: Language = currentLanguage()): string =>
  `${Math.round(seconds)}${SIGNS[language].second}`;

/** "1.2 s", "3 m 20 s", "2 h 5 m"; in Japanese "3分20秒". */
export function duration(seconds: number, language: Language = currentLanguage()): string {
  const sign = SIGNS[language];
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}${sign.second}`;
  const whole = Math.round(seconds);
  const pair = (size: number, inner: number, one: string, other: string) => {
    const rest = Math.floor((whole % size) / inner);
    return `${Math.floor(whole / size)}${one}${rest > 0 ? `${sign.gap}${rest}${other}` : ""}`;
  };
  if (whole < 60) return `${whole}${sign.second}`;
  if (whole < 3600) return pair(60, 1, sign.minute, sign.second);
  if (whole < 86_400) return pair(3600, 60, sign.hour, sign.minute);
  return pair(86_400, 3600, sign.day, sign.hour);
}
