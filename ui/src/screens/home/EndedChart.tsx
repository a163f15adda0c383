/** Ended runs over time: one bar per interval, linked to its runs. */
import { type KeyboardEvent, useRef, useState } from "react";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { useNarrow } from "../../lib/media";
import { joined } from "../../ui/controls";
import { Card } from "../../ui/Page";
import { toneClass } from "../../ui/status";
import {
  countOf,
  ENDS,
  type End,
  endedHref,
  type Interval,
  intervalHref,
  intervalLabel,
  labelled,
  roundedUp,
  sumOf,
  timeLabel,
} from "./chart";
import styles from "./EndedChart.module.css";
import { messages } from "./messages";
import type { Overview } from "./warnings";

const STATUS_OF: Record<End, string> = { completed: "COMPLETED", cancelled: "CANCELLED", failed: "FAILED" };

export function EndedChart({ overview }: { overview: Overview }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const narrow = useNarrow();
  const { ended, stretch_sec: intervalSec, window } = overview;
  // The hovered or focused bar, else all. Identified by time, since bars move.
  const [pointedAt, setPointedAt] = useState<number | null>(null);
  const interval = ended.find(({ at }) => at === pointedAt);
  const top = roundedUp(Math.max(...ended.map(countOf)));
  const isQuiet = ended.every((each) => countOf(each) === 0);
  return (
    <Card
      title={t("chart")}
      actions={
        <Legend
          counts={interval ?? sumOf(ended)}
          time={interval ? intervalLabel(interval, intervalSec, language) : t(`within.${window}`)}
          to={(end) => (interval ? intervalHref(interval, intervalSec, end) : endedHref(window, end))}
        />
      }
    >
      <div className={styles.chart}>
        <div className={styles.scale} aria-hidden>
          {[top, top / 2, 0].map((mark) => (
            <span key={mark} style={{ bottom: `${(mark / top) * 100}%` }}>
              {mark.toLocaleString(language)}
            </span>
          ))}
        </div>
        <div className={styles.plot}>
          <Bars overview={overview} top={top} onPoint={setPointedAt} />
          {isQuiet && <p className={styles.quiet}>{t("quiet", { within: t(`within.${window}`) })}</p>}
        </div>
        <div className={styles.times} aria-hidden>
          {labelled(ended, intervalSec, narrow ? 5 : 9).map((number) => (
            <span key={number} style={{ left: `${(number / ended.length) * 100}%` }}>
              {timeLabel(ended[number]?.at ?? 0, window, language)}
            </span>
          ))}
        </div>
      </div>
    </Card>
  );
}

interface LegendProps {
  counts: Record<End, number>;
  time: string;
  to: (end: End) => string;
}

function Legend({ counts, time, to }: LegendProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  return (
    <p className={styles.legend}>
      <span className={styles.legendTime}>{time}</span>
      {ENDS.map((end) => (
        <a
          key={end}
          href={to(end)}
          className={joined(styles.legendItem, styles[end], toneClass(STATUS_OF[end]))}
        >
          {t(`end.${end}`)} <strong>{counts[end].toLocaleString(language)}</strong>
        </a>
      ))}
    </p>
  );
}

interface BarsProps {
  overview: Overview;
  /** The value of a full bar. */
  top: number;
  onPoint: (at: number | null) => void;
}

function Bars({ overview, top, onPoint }: BarsProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { ended, stretch_sec: intervalSec } = overview;
  // One tab stop; arrow keys move between bars.
  const [stopAt, setStopAt] = useState<number | null>(null);
  const known = ended.findIndex(({ at }) => at === stopAt);
  const stop = known < 0 ? ended.length - 1 : known;
  const list = useRef<HTMLOListElement>(null);
  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.min(ended.length - 1, Math.max(0, stop + by));
    list.current?.children[next]?.querySelector("a")?.focus();
  };
  const label = (interval: Interval) =>
    t("barLabel", { ...interval, time: intervalLabel(interval, intervalSec, language) });
  return (
    <ol ref={list} className={styles.bars} aria-label={t("chartLabel")} onMouseLeave={() => onPoint(null)}>
      {ended.map((interval, number) => (
        <li key={interval.at}>
          <a
            href={intervalHref(interval, intervalSec)}
            className={styles.bar}
            aria-label={label(interval)}
            tabIndex={number === stop ? 0 : -1}
            onMouseEnter={() => onPoint(interval.at)}
            onFocus={() => {
              setStopAt(interval.at);
              onPoint(interval.at);
            }}
            onBlur={() => onPoint(null)}
            onKeyDown={step}
          >
            {[...ENDS]
              .reverse()
              .map(
                (end) =>
                  interval[end] > 0 && (
                    <span
                      key={end}
                      className={joined(styles.part, styles[end], toneClass(STATUS_OF[end]))}
                      style={{ height: `${(interval[end] / top) * 100}%` }}
                    />
                  ),
              )}
          </a>
        </li>
      ))}
    </ol>
  );
}
