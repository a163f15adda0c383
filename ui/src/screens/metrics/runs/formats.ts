/** Figures as text in the current language. */
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { duration } from "../../../i18n/time";
import { messages } from "./messages";

export function useFormats() {
  const t = useMessages(messages);
  const language = useLanguage();
  const number = (value: number, digits = 0) =>
    value.toLocaleString(language, { maximumFractionDigits: digits });
  return {
    number,
    /** "12.4 / h"; rare runs per day. Two rates that are compared have the unit of the smaller one. */
    rate: (perHour: number, other: number = perHour) =>
      [perHour, other].some((each) => each > 0 && each < 1)
        ? t("perDay", { count: number(perHour * 24, 1) })
        : t("perHour", { count: number(perHour, perHour < 100 ? 1 : 0) }),
    percent: (share: number | null) =>
      share === null
        ? t("none")
        : share.toLocaleString(language, { style: "percent", maximumFractionDigits: 1 }),
    time: (ms: number | null) => (ms === null ? t("none") : duration(ms / 1000, language)),
    /** "+50%". */
    change: (change: number) =>
      change.toLocaleString(language, {
        style: "percent",
        maximumFractionDigits: 0,
        signDisplay: "exceptZero",
      }),
    points: (difference: number) =>
      t("points", {
        count: (100 * difference).toLocaleString(language, {
          maximumFractionDigits: 1,
          signDisplay: "exceptZero",
        }),
      }),
  };
}
