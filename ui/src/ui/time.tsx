/** A moment as people say it, with the exact one on hover; and how long something takes. */
import { useLanguage } from "../i18n/language";
import { useMessages } from "../i18n/messages";
import { duration, exactTime, relativeTime } from "../i18n/time";
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

/** From a moment to another, or to now while it goes on. */
export function Duration({ from, to }: { from: number | null | undefined; to?: number | null }) {
  if (from == null) return <span aria-hidden>–</span>;
  return to == null ? <Growing from={from} /> : <span>{duration(Math.max(0, to - from))}</span>;
}

function Growing({ from }: { from: number }) {
  const now = useNow();
  return <span>{duration(Math.max(0, Math.floor(now - from)))}</span>;
}
