/** When a schedule starts runs, in words. */
import type { Language } from "../i18n/language";
import { listText, type Translate, translator } from "../i18n/messages";
import { interval } from "../i18n/time";
import { type CronShape, cronShape } from "./cron";
import { messages } from "./messages";
import type { Spec } from "./schedule";
import { zonedTime } from "./zones";

type T = Translate<(typeof messages)["en"]>;

/** "Every day at 02:00"; an uncommon cron expression is shown as it is. */
export function specText(spec: Spec, language: Language): string {
  const t = translator(messages, language);
  const parts = (spec.cron ?? []).map((each) => {
    const shape = cronShape(each);
    return shape ? cronText(shape, t, language) : each;
  });
  if (spec.every_sec) parts.push(t("every", { time: interval(spec.every_sec, language) }));
  if (spec.at?.length) {
    // A form has them as they were typed.
    const time = spec.at.every(Number.isFinite)
      ? zonedTime(Math.min(...spec.at), spec.timezone, language, { bare: true })
      : String(spec.at[0]);
    parts.push(
      spec.at.length === 1 ? t("oneMoment", { time }) : t("moments", { count: spec.at.length, time }),
    );
  }
  return parts.join(language === "ja" ? "、" : "; ") || t("nothing");
}

function cronText(shape: CronShape, t: T, language: Language): string {
  switch (shape.kind) {
    case "minutes":
      return shape.every === 1 ? t("cron.minute") : t("cron.minutes", { every: shape.every });
    case "hours": {
      const minute = language === "ja" ? String(shape.minute) : String(shape.minute).padStart(2, "0");
      return shape.every === 1 ? t("cron.hour", { minute }) : t("cron.hours", { every: shape.every, minute });
    }
    case "daily":
      return t("cron.daily", { times: listText(shape.times, language) });
    case "weekly": {
      const times = listText(shape.times, language);
      if (shape.days.join() === "1,2,3,4,5") return t("cron.weekdays", { times });
      const names = shape.days.map((day) => weekdayName(day, language));
      return t("cron.weekly", { days: names.join(language === "ja" ? "・" : ", "), times });
    }
    case "monthly":
      return t("cron.monthly", {
        days: shape.days.join(language === "ja" ? "・" : ", "),
        times: listText(shape.times, language),
      });
    case "yearly": {
      const date = new Date(Date.UTC(2024, shape.month - 1, shape.day));
      const format = new Intl.DateTimeFormat(language, { month: "long", day: "numeric", timeZone: "UTC" });
      return t("cron.yearly", { date: format.format(date), times: listText(shape.times, language) });
    }
  }
}

/** 2024-09-01 is a Sunday. */
const weekdayName = (day: number, language: Language): string =>
  new Intl.DateTimeFormat(language, { weekday: "short", timeZone: "UTC" }).format(
    new Date(Date.UTC(2024, 8, 1 + day)),
  );
