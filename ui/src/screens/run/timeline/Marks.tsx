/** What stands on the track of a row: bars, sleeps and waits, and the duration beside them. */
import { type LucideIcon, MessageCircleQuestion, Moon, Radio } from "lucide-react";
import { memo } from "react";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { duration, exactTime } from "../../../i18n/time";
import { visible } from "../../../lib/visible";
import { joined } from "../../../ui/controls";
import { toneClass } from "../../../ui/status";
import type { Bar, Span } from "./bars";
import { messages } from "./messages";
import { place, type Scale, visiblePart } from "./scale";
import styles from "./Timeline.module.css";

// In percent.
const ROOM_AFTER = 84;
const ROOM_FOR_ICON = 5;

interface BarProps {
  bar: Bar;
  scale: Scale;
  end: number;
  replayed: boolean;
}

export const BarMark = memo(function BarMark({ bar, scale, end, replayed }: BarProps) {
  const language = useLanguage();
  const to = bar.to ?? end;
  const part = visiblePart(bar.from, to, scale);
  if (!part) return null;
  const about = `${exactTime(bar.from, language)} · ${duration(Math.max(0, to - bar.from))}`;
  return (
    <span
      className={joined(
        styles.bar,
        toneClass(bar.state),
        bar.to === null && styles.growing,
        replayed && styles.old,
      )}
      title={bar.error ? `${about}\n${visible(bar.error)}` : about}
      style={{ left: `${part.left}%`, width: `${part.width}%` }}
    />
  );
});

const ICONS: Record<Span["kind"], LucideIcon> = {
  sleep: Moon,
  signal: Radio,
  event: Radio,
  human: MessageCircleQuestion,
};

/** A sleep or a wait, with a picture where there is room. */
export function SpanMark({ span, scale, end }: { span: Span; scale: Scale; end: number }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const to = span.to ?? end;
  const part = visiblePart(span.from, to, scale);
  if (!part) return null;
  const Icon = ICONS[span.kind];
  const what =
    span.kind === "human"
      ? t("span.human")
      : span.kind !== "sleep"
        ? t(`span.${span.kind}`, { topic: span.topic })
        : span.until === null
          ? t("span.sleepNoTime")
          : t("span.sleep", { time: exactTime(span.until, language) });
  return (
    <span
      className={joined(styles.span, toneClass("WAITING"))}
      data-span={span.kind}
      title={`${what} · ${duration(Math.max(0, to - span.from))}`}
      style={{ left: `${part.left}%`, width: `${part.width}%` }}
    >
      {part.width > ROOM_FOR_ICON && <Icon size={11} aria-hidden />}
      <span className="hidden-visually">{what}</span>
    </span>
  );
}

interface TookProps {
  from: number;
  to: number;
  scale: Scale;
  text: string;
  /** In percent: up to here it stands after the bar. */
  room?: number;
}

/** After the bar; else where there is more room, before it or inside. An arrow, if no part of it is visible. */
export function Took({ from, to, scale, text, room = ROOM_AFTER }: TookProps) {
  const [left, right] = [place(from, scale), place(to, scale)];
  if (right < 0 || left > 100)
    return (
      <span
        className={joined(styles.took, right >= 0 && styles.tookBefore)}
        style={{ [right < 0 ? "left" : "right"]: 0 }}
        aria-hidden
      >
        {right < 0 ? "‹" : "›"}
      </span>
    );
  if (right < room)
    return (
      <span className={styles.took} style={{ left: `${right}%` }}>
        {text}
      </span>
    );
  const inside = Math.min(right, 100) - Math.max(left, 0) > left;
  return (
    <span
      className={joined(styles.took, inside ? styles.tookInside : styles.tookBefore)}
      style={{ right: `${100 - Math.min(inside ? right : left, 100)}%` }}
    >
      {text}
    </span>
  );
}
