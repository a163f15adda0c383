/** A row per task, with a bar per execution, on a scale that can be zoomed and has collapsible gaps. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { ChartGantt, History, Maximize, Minus, Plus, Repeat2 } from "lucide-react";
import { type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { clockTime, duration, exactTime } from "../../../i18n/time";
import { useNow } from "../../../lib/clock";
import { useNarrow } from "../../../lib/media";
import { visible } from "../../../lib/visible";
import { IconButton, joined } from "../../../ui/controls";
import { isTerminal, StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { Panel } from "../Panel";
import type { Run, Task, Wait } from "../run";
import { AxisRow } from "./AxisRow";
import { axisOf, type Gap, lasting, queuedAt } from "./axis";
import { attemptsOf, type Row, rowsOf } from "./bars";
import { BarMark, SpanMark, Took } from "./Marks";
import { messages } from "./messages";
import { place, type Scale, ticksOf, visiblePart } from "./scale";
import styles from "./Timeline.module.css";
import { useTimelineView, type Zoom } from "./useTimelineView";

const ROW_PX = 26;
const TALLEST_PX = 290;
const TICK_MS = 200;
// Until it is measured.
const USUAL_WIDTH_PX = 600;
// In percent: the text of an attempt is longer than a duration.
const ROOM_AFTER_ATTEMPT = 55;

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
  const end = run.end_time ?? now;
  // Bars grow smoothly; figures change with those of the rest of the page.
  const tick = useNow();
  const told = run.end_time == null ? tick : null;
  const narrow = useNarrow();
  const heardAt = run.heartbeat_at;
  const rows = useMemo(() => rowsOf(tasks, waits, heardAt), [tasks, waits, heardAt]);
  const chart = useRef<HTMLFieldSetElement>(null);
  const track = useRef<HTMLDivElement>(null);
  const width = useWidth(track);
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const zoom = useTimelineView(axisOf(run, rows, { now, width, chosen }), chart, track);
  const { scale } = zoom;
  const ticks = ticksOf(scale, narrow ? 3 : 6);
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => rows[index]?.name ?? index,
    overscan: 8,
  });
  const at = selected === null ? -1 : rows.findIndex((each) => each.name === selected);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another selection moves the rows.
  useEffect(() => {
    if (at >= 0) list.scrollToIndex(at, { align: "auto" });
  }, [selected]);
  const scrolls = rows.length * ROW_PX > TALLEST_PX;
  return (
    <Panel title={t("timeline")} icon={ChartGantt} actions={<Tools run={run} zoom={zoom} />}>
      <fieldset
        ref={chart}
        className={joined(styles.chart, !zoom.isWhole && styles.movable)}
        aria-label={t("timeline")}
        aria-description={t("keys")}
      >
        <AxisRow
          ref={track}
          scale={scale}
          ticks={ticks}
          width={width}
          scrolls={scrolls}
          told={told}
          onToggle={(gap: Gap, collapsed) => setChosen(new Map(chosen).set(gap.key, collapsed))}
        />
        <Attempts run={run} scale={scale} end={end} scrolls={scrolls} />
        <div ref={scroller} className={joined(styles.scroller, scrolls && styles.scrolls)}>
          <ul className={styles.rows} style={{ height: list.getTotalSize() }} aria-label={t("timeline")}>
            <li className={styles.grid} aria-hidden>
              <GapGround scale={scale} />
              {ticks.map(({ left }) => (
                <span key={left} className={styles.line} style={{ left: `${left}%` }} />
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
                    end={end}
                    told={told}
                    before={run.start_time ?? 0}
                    selected={row.name === selected}
                    onSelect={onSelect}
                  />
                )
              );
            })}
          </ul>
        </div>
      </fieldset>
    </Panel>
  );
}

function Tools({ run, zoom }: { run: Run; zoom: Zoom }) {
  const t = useMessages(messages);
  const queued = queuedAt(run);
  return (
    <span className={styles.tools}>
      {queued !== null && run.start_time != null && (
        <span className={styles.note}>
          {t("queuedFor", { time: duration(Math.max(0, run.start_time - queued)) })}
        </span>
      )}
      <IconButton
        label={t("zoomOut")}
        icon={<Minus size={14} />}
        disabled={zoom.isWhole}
        onClick={zoom.zoomOut}
      />
      <IconButton label={t("zoomIn")} icon={<Plus size={14} />} onClick={zoom.zoomIn} />
      <IconButton
        label={t("whole")}
        icon={<Maximize size={14} />}
        disabled={zoom.isWhole}
        onClick={zoom.reset}
      />
    </span>
  );
}

/** Behind the rows: where nothing executed. */
function GapGround({ scale }: { scale: Scale }) {
  return scale.axis.pieces.map(({ gap, collapsed, from, to }) => {
    const part = gap && visiblePart(from, to, scale);
    return (
      part && (
        <span
          key={gap.key}
          className={joined(styles.queued, collapsed && styles.broken)}
          style={{ left: `${part.left}%`, width: `${part.width}%` }}
        />
      )
    );
  });
}

interface AttemptsProps {
  run: Run;
  scale: Scale;
  end: number;
  scrolls: boolean;
}

/** The attempts of a run that several workers have executed: who, when, and how each ended. */
function Attempts({ run, scale, end, scrolls }: AttemptsProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const attempts = attemptsOf(run);
  if (attempts.length === 0) return null;
  return (
    <ul className={joined(styles.attempts, scrolls && styles.scrolls)} aria-label={t("attempts")}>
      {attempts.map((each) => {
        const state = each.end ? "FAILED" : run.status;
        const to = each.to ?? end;
        const worker = each.worker ?? "";
        const what = each.end && t(`attemptEnd.${each.end}`, { worker, time: clockTime(to) });
        const isVisible = visiblePart(each.from, to, scale) !== null;
        return (
          <li key={each.number} className={styles.attempt} data-attempt={each.number}>
            <span className={styles.name} title={visible(worker)}>
              <span>
                {t("attemptNumber", { number: each.number })} <UserText text={worker} />
              </span>
            </span>
            <span className={styles.track} title={what ? `${what}\n${exactTime(to, language)}` : undefined}>
              <BarMark
                bar={{ from: each.from, to: each.to, state }}
                scale={scale}
                end={end}
                replayed={false}
              />
              {what &&
                (isVisible ? (
                  <Took from={each.from} to={to} scale={scale} text={what} room={ROOM_AFTER_ATTEMPT} />
                ) : (
                  // Zoomed to another time: who died and when stays visible.
                  <span
                    className={joined(styles.took, place(to, scale) > 100 && styles.tookBefore)}
                    style={{ [place(to, scale) < 0 ? "left" : "right"]: 0 }}
                  >
                    {what}
                  </span>
                ))}
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
  /** What the clock of the page says, while the run goes on. */
  told: number | null;
  /** Finished before this run. */
  before: number;
  selected: boolean;
  onSelect: (name: string | null) => void;
}

function TimelineRow({ row, start, scale, end, told, before, selected, onSelect }: RowProps) {
  const t = useMessages(messages);
  const word = useStatusText();
  const own = row.bars.filter((bar) => bar.to === null || bar.to >= before);
  const reused = row.replayed && own.length === 0;
  const took = row.took ?? lasting(own[0]?.from ?? end, end, told);
  const last = own.at(-1);
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
          {last && <Took from={last.from} to={last.to ?? end} scale={scale} text={duration(took)} />}
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

/** The width of an element in pixels, also after it has changed. */
function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(USUAL_WIDTH_PX);
  useLayoutEffect(() => {
    const box = element.current;
    if (!box) return;
    const observer = new ResizeObserver(() => setWidth(box.clientWidth));
    observer.observe(box);
    return () => observer.disconnect();
  }, [element]);
  return width;
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
