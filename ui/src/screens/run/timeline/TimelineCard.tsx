/** A row per task, with a bar per execution. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { ChartGantt, History, Moon, Radio, Repeat2 } from "lucide-react";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { duration, exactTime } from "../../../i18n/time";
import { useNarrow } from "../../../lib/media";
import { visible } from "../../../lib/visible";
import { joined } from "../../../ui/controls";
import { isTerminal, StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { messages } from "../messages";
import { Panel } from "../Panel";
import type { Run, Task, Wait } from "../run";
import {
  attemptsOf,
  type Bar,
  place,
  queuedAt,
  type Row,
  rowsOf,
  type Scale,
  type Span,
  scaleOf,
  ticksOf,
} from "./bars";
import styles from "./Timeline.module.css";

const ROW_PX = 26;
const TALLEST_PX = 290;
const TICK_MS = 200;
// In percent.
const ROOM_AFTER = 84;
const ROOM_FOR_TICK = 93;
const ROOM_FOR_ICON = 5;

interface TimelineProps {
  run: Run;
  tasks: readonly Task[];
  waits: readonly Wait[];
  selected: string | null;
  onSelect: (name: string | null) => void;
}

export function TimelineCard({ run, tasks, waits, selected, onSelect }: TimelineProps) {
  const t = useMessages(messages);
  const now = useMoment(!isTerminal(run.status));
  const narrow = useNarrow();
  const rows = useMemo(() => rowsOf(tasks, waits), [tasks, waits]);
  const queueBegin = queuedAt(run);
  const scale = scaleOf(run, now);
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => rows[index]?.name ?? index,
    overscan: 8,
  });
  const chosen = selected === null ? -1 : rows.findIndex((each) => each.name === selected);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another selection moves the rows.
  useEffect(() => {
    if (chosen >= 0) list.scrollToIndex(chosen, { align: "auto" });
  }, [selected]);
  const ticks = ticksOf(scale, narrow ? 3 : 6).map((seconds) => ({
    seconds,
    left: place(scale.from + seconds, scale),
  }));
  const scrolls = rows.length * ROW_PX > TALLEST_PX;
  const queued = queueBegin !== null ? place(run.start_time ?? run.end_time ?? now, scale) : 0;
  return (
    <Panel
      title={t("timeline")}
      icon={ChartGantt}
      actions={
        queueBegin !== null &&
        run.start_time != null && (
          <span className={styles.note}>
            {t("queuedFor", { time: duration(Math.max(0, run.start_time - queueBegin)) })}
          </span>
        )
      }
    >
      <div className={joined(styles.head, scrolls && styles.scrolls)} aria-hidden>
        <span />
        <div className={styles.axis}>
          {ticks.map(
            ({ seconds, left }) =>
              left < ROOM_FOR_TICK && (
                <span key={seconds} style={{ left: `${left}%` }}>
                  {seconds === 0 ? "0" : duration(seconds)}
                </span>
              ),
          )}
        </div>
      </div>
      <Attempts run={run} scale={scale} end={run.end_time ?? now} />
      <div ref={scroller} className={joined(styles.scroller, scrolls && styles.scrolls)}>
        <ul className={styles.rows} style={{ height: list.getTotalSize() }} aria-label={t("timeline")}>
          <li className={styles.grid} aria-hidden>
            <span className={styles.queued} style={{ width: `${queued}%` }} />
            {ticks.map(({ seconds, left }) => (
              <span key={seconds} className={styles.line} style={{ left: `${left}%` }} />
            ))}
          </li>
          {list.getVirtualItems().map(({ index, key, start }) => {
            const row = rows[index];
            return (
              row && (
                <TimelineRow
                  key={key}
                  row={row}
                  start={start}
                  scale={scale}
                  end={run.end_time ?? now}
                  before={run.start_time ?? 0}
                  selected={row.name === selected}
                  onSelect={onSelect}
                />
              )
            );
          })}
        </ul>
      </div>
    </Panel>
  );
}

/** The attempts of a run that several workers have executed: who, when, and how each ended. */
function Attempts({ run, scale, end }: { run: Run; scale: Scale; end: number }) {
  const t = useMessages(messages);
  const attempts = attemptsOf(run);
  if (attempts.length === 0) return null;
  return (
    <ul className={styles.attempts} aria-label={t("attempts")}>
      {attempts.map((each) => {
        const state = each.end ? "FAILED" : run.status;
        const what = each.end ? t(`attemptEnd.${each.end}`) : null;
        return (
          <li key={each.number} className={styles.attempt} data-attempt={each.number}>
            <span className={styles.name} title={visible(each.worker ?? "")}>
              <span>
                {t("attemptNumber", { number: each.number })} <UserText text={each.worker ?? ""} />
              </span>
            </span>
            <span className={styles.track}>
              <BarMark
                bar={{ from: each.from, to: each.to, state }}
                scale={scale}
                end={end}
                replayed={false}
              />
              {what && (
                <span className={styles.took} style={{ left: `${place(each.to ?? end, scale)}%` }}>
                  {what}
                </span>
              )}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

interface RowProps {
  row: Row;
  start: number;
  scale: Scale;
  end: number;
  /** Finished before this run. */
  before: number;
  selected: boolean;
  onSelect: (name: string | null) => void;
}

function TimelineRow({ row, start, scale, end, before, selected, onSelect }: RowProps) {
  const t = useMessages(messages);
  const word = useStatusText();
  const own = row.bars.filter((bar) => bar.to === null || bar.to >= before);
  const reused = row.replayed && own.length === 0;
  const took = row.took ?? Math.max(0, end - (own[0]?.from ?? end));
  return (
    <li className={styles.item} style={{ transform: `translateY(${start}px)` }}>
      <button
        type="button"
        className={joined(styles.row, toneClass(row.state), selected && styles.chosen)}
        data-task={row.name}
        data-state={row.state}
        aria-pressed={selected}
        onClick={() => onSelect(selected ? null : row.name)}
      >
        <span className={styles.name} title={visible(row.name)}>
          <StatusIcon status={row.state} />
          <span>
            <UserText text={row.name} />
          </span>
          {row.calls > 1 && (
            <span className={styles.calls}>
              <Repeat2 size={11} aria-hidden />
              {row.calls}
            </span>
          )}
        </span>
        <span className={styles.track}>
          {own.map((bar) => (
            <BarMark key={bar.from} bar={bar} scale={scale} end={end} replayed={row.replayed} />
          ))}
          {row.spans.map((span) => (
            <SpanMark key={span.id} span={span} scale={scale} end={end} />
          ))}
          {own.length > 0 && <Took bar={own.at(-1)} scale={scale} end={end} text={duration(took)} />}
          {reused && (
            <span className={styles.reused}>
              <History size={11} aria-hidden />
              {t("reused")}
            </span>
          )}
        </span>
        <span className="hidden-visually">{word(row.state)}</span>
      </button>
    </li>
  );
}

interface BarProps {
  bar: Bar;
  scale: Scale;
  end: number;
  replayed: boolean;
}

const BarMark = memo(function BarMark({ bar, scale, end, replayed }: BarProps) {
  const language = useLanguage();
  const to = bar.to ?? end;
  const left = place(bar.from, scale);
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
      style={{ left: `${left}%`, width: `${place(to, scale) - left}%` }}
    />
  );
});

/** A sleep or a wait, with a picture where there is room. */
function SpanMark({ span, scale, end }: { span: Span; scale: Scale; end: number }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const to = span.to ?? end;
  const left = place(span.from, scale);
  const width = place(to, scale) - left;
  const Icon = span.kind === "sleep" ? Moon : Radio;
  const what =
    span.kind !== "sleep"
      ? t(`span.${span.kind}`, { topic: span.topic })
      : span.until === null
        ? t("span.sleepNoTime")
        : t("span.sleep", { time: exactTime(span.until, language) });
  return (
    <span
      className={joined(styles.span, toneClass("WAITING"))}
      data-span={span.kind}
      title={`${what} · ${duration(Math.max(0, to - span.from))}`}
      style={{ left: `${left}%`, width: `${width}%` }}
    >
      {width > ROOM_FOR_ICON && <Icon size={11} aria-hidden />}
      <span className="hidden-visually">{what}</span>
    </span>
  );
}

/** Next to the last bar, on the side with room; else inside. */
function Took({ bar, scale, end, text }: { bar?: Bar; scale: Scale; end: number; text: string }) {
  if (!bar) return null;
  const right = place(bar.to ?? end, scale);
  const left = place(bar.from, scale);
  if (right < ROOM_AFTER)
    return (
      <span className={styles.took} style={{ left: `${right}%` }}>
        {text}
      </span>
    );
  const inside = left < 100 - ROOM_AFTER;
  return (
    <span
      className={joined(styles.took, inside ? styles.tookInside : styles.tookBefore)}
      style={{ right: `${100 - (inside ? right : left)}%` }}
    >
      {text}
    </span>
  );
}

/** Unix seconds, updated often enough for a growing bar. */
function useMoment(moving: boolean): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!moving) return;
    const timer = setInterval(() => document.hidden || setNow(Date.now() / 1000), TICK_MS);
    return () => clearInterval(timer);
  }, [moving]);
  return now;
}
