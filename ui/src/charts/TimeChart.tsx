/** A chart over time: stacked bars and lines on one scale, with a link per interval. */
import { type KeyboardEvent, useRef, useState } from "react";
import { useLanguage } from "../i18n/language";
import { useNarrow } from "../lib/media";
import { joined } from "../ui/controls";
import { toneClass } from "../ui/status";
import { ENDS, type EndCounts, STATUS_OF } from "./ends";
import { HEIGHT, pathOf } from "./linePath";
import styles from "./TimeChart.module.css";
import { labelled, timeLabel } from "./timeAxis";

export interface Interval {
  at: number;
  /** Its runs. */
  href: string;
  /** What it says to a reader who does not see it. */
  label: string;
  /** The bar. */
  ended?: EndCounts;
}

export interface Line {
  name: string;
  kind: "main" | "second" | "before";
  /** Of each interval; null: there is none. */
  values: readonly (number | null)[];
}

interface TimeChartProps {
  label: string;
  intervals: readonly Interval[];
  intervalSec: number;
  /** The value of the upper edge. */
  top: number;
  /** A value of the scale as text. */
  mark: (value: number) => string;
  lines?: readonly Line[];
  /** Shown in place of values. */
  empty?: string | false;
  /** The time of the interval that is hovered or focused. */
  onPoint: (at: number | null) => void;
}

export function TimeChart(props: TimeChartProps) {
  const { intervals, intervalSec, top, mark, lines = [], empty } = props;
  const language = useLanguage();
  const narrow = useNarrow();
  const starts = intervals.map(({ at }) => at);
  return (
    <div className={styles.chart}>
      <div className={styles.scale} aria-hidden>
        <span className={styles.widest}>{mark(top)}</span>
        {[top, top / 2, 0].map((value) => (
          <span key={value} className={styles.mark} style={{ bottom: `${(value / top) * 100}%` }}>
            {mark(value)}
          </span>
        ))}
      </div>
      <div className={styles.plot}>
        {lines.length > 0 && <Lines lines={lines} top={top} />}
        <Intervals {...props} />
        {empty && <p className={styles.empty}>{empty}</p>}
      </div>
      <div className={styles.times} aria-hidden>
        {labelled(starts, intervalSec, narrow ? 5 : 9).map((number) => (
          // The last one stays within the chart.
          <span key={number} style={{ left: `min(${(number / intervals.length) * 100}%, 100% - 3em)` }}>
            {timeLabel(starts[number] ?? 0, intervals.length * intervalSec, language)}
          </span>
        ))}
      </div>
    </div>
  );
}

function Intervals({ label, intervals, top, onPoint }: TimeChartProps) {
  // One tab stop; arrow keys move between intervals. Identified by time, since they move.
  const [stopAt, setStopAt] = useState<number | null>(null);
  const known = intervals.findIndex(({ at }) => at === stopAt);
  const stop = known < 0 ? intervals.length - 1 : known;
  const list = useRef<HTMLOListElement>(null);
  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.min(intervals.length - 1, Math.max(0, stop + by));
    list.current?.children[next]?.querySelector("a")?.focus();
  };
  return (
    <ol ref={list} className={styles.intervals} aria-label={label} onMouseLeave={() => onPoint(null)}>
      {intervals.map(({ at, href, label, ended }, number) => (
        <li key={at}>
          <a
            href={href}
            className={styles.interval}
            aria-label={label}
            tabIndex={number === stop ? 0 : -1}
            onMouseEnter={() => onPoint(at)}
            onFocus={() => {
              setStopAt(at);
              onPoint(at);
            }}
            onBlur={() => onPoint(null)}
            onKeyDown={step}
          >
            {ended &&
              [...ENDS]
                .reverse()
                .map(
                  (end) =>
                    ended[end] > 0 && (
                      <span
                        key={end}
                        className={joined(styles.part, styles[end], toneClass(STATUS_OF[end]))}
                        style={{ height: `${(ended[end] / top) * 100}%` }}
                      />
                    ),
                )}
          </a>
        </li>
      ))}
    </ol>
  );
}

function Lines({ lines, top }: { lines: readonly Line[]; top: number }) {
  const count = Math.max(1, ...lines.map(({ values }) => values.length));
  return (
    <svg
      className={styles.lines}
      viewBox={`0 0 ${count} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {lines.map(({ name, kind, values }) => (
        <path key={name} className={styles[kind]} d={pathOf(values, top)} />
      ))}
    </svg>
  );
}
