/** Relative times with the exact time on hover, and durations. */
import { useLanguage } from "../i18n/language";
import { useMessages } from "../i18n/messages";
import { duration, exactTime, momentText, relativeTime } from "../i18n/time";
import { useNow } from "../lib/clock";
import { messages } from "./messages";

export function Ago({ at }: { at: number | null | undefined }) {
  const language = useLanguage();
  const t = useMessages(messages);
  const now = useNow();
  if (at == null) return <span aria-hidden>–</span>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exactTime(at, language)}>
      {relativeTime(at, now, language) ?? t("now")}
    </time>
  );
}

/** To the second, with the age below it: where the order and the day matter. */
export function Moment({ at }: { at: number }) {
  const language = useLanguage();
  return (
    <>
      <time dateTime={new Date(at * 1000).toISOString()} title={exactTime(at, language)}>
        {momentText(at)}
      </time>
      <Ago at={at} />
    </>
  );
}

/** "Starts in 2h" */
export function StartsIn({ at }: { at: number }) {
  const language = useLanguage();
  const t = useMessages(messages);
  const now = useNow();
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exactTime(at, language)}>
      {t("startsIn", { when: relativeTime(at, now, language) ?? t("now") })}
    </time>
  );
}

/** From one moment to another, or to now. */
export function Duration({ from, to }: { from: number | null | undefined; to?: number | null }) {
  if (from == null) return <span aria-hidden>–</span>;
  return to == null ? <Growing from={from} /> : <span>{duration(Math.max(0, to - from))}</span>;
}

function Growing({ from }: { from: number }) {
  const now = useNow();
  return <span>{duration(Math.max(0, Math.floor(now - from)))}</span>;
}
