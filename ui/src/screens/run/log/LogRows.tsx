/** The visible lines. */

import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type Ref,
  type RefObject,
  type UIEvent,
  useCallback,
  useEffect,
  useEffectEvent,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { useMessages } from "../../../i18n/messages";
import { joined } from "../../../ui/controls";
import { Line } from "./Line";
import styles from "./Log.module.css";
import type { LogLine } from "./logLines";
import { messages } from "./messages";

const LINE_PX = 19;
const NEAR_END_PX = 12;
const PADDING_PX = 12;

export interface LogRowsHandle {
  toLine: (id: string) => void;
  /** Loads earlier lines; those that are visible stay where they are. */
  keepPlace: (load: () => void) => void;
}
interface LogRowsProps {
  ref?: Ref<LogRowsHandle>;
  lines: readonly LogLine[];
  /** The number of lines that were left out before the line with this id. */
  skipped?: ReadonlyMap<string, number>;
  wrap: boolean;
  search: string;
  /** The id of the highlighted line. */
  current?: string | null;
  selected: string | null;
  fieldsOpen?: boolean;
  /** Without it, tasks are not shown. */
  onSelect?: (name: string | null) => void;
  /** Whether the newest line is kept in view. */
  following: boolean;
  /** The user has scrolled to the last line, or away from it. */
  onFollow: (following: boolean) => void;
  /** The URL of a line; without it, lines have no link. */
  linkTo?: (id: string) => string;
}

export function LogRows(props: LogRowsProps) {
  const {
    ref,
    lines,
    wrap,
    search,
    current = null,
    selected,
    fieldsOpen = false,
    onSelect,
    following,
  } = props;
  const t = useMessages(messages);
  const scroller = useRef<HTMLDivElement>(null);
  // The first visible line and the first one, while earlier lines are loaded.
  const kept = useRef<string | null>(null);
  const first = useRef<string | null>(null);
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const list = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PX,
    getItemKey: (index) => lines[index]?.id ?? index,
    overscan: 20,
  });
  const toLine = (id: string, align: "center" | "start") => {
    const index = lines.findIndex((each) => each.id === id);
    if (index >= 0) list.scrollToIndex(index, { align });
  };
  useImperativeHandle(ref, () => ({
    toLine: (id) => toLine(id, "center"),
    keepPlace: (load) => {
      const top = scroller.current?.scrollTop ?? 0;
      kept.current = lines[list.getVirtualItems().find(({ end }) => end > top)?.index ?? 0]?.id ?? null;
      first.current = lines[0]?.id ?? null;
      load();
    },
  }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: when lines were added before the first one.
  useLayoutEffect(() => {
    if (kept.current === null || first.current === lines[0]?.id) return;
    toLine(kept.current, "start");
    kept.current = null;
  }, [lines]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: lines have other heights then.
  useEffect(() => list.measure(), [wrap, fieldsOpen]);
  const height = list.getTotalSize();
  useEnd(scroller, following, [lines, height]);
  const scrolling = useFollowing(following, props.onFollow);
  const toggle = useCallback((id: string) => {
    setToggled((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  return (
    <div
      ref={scroller}
      className={joined(styles.scroller, wrap && styles.wrapped, !onSelect && styles.taskless)}
      style={{ height: height + PADDING_PX }}
      role="log"
      aria-label={t("log")}
      aria-live="off"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
      tabIndex={0}
      {...scrolling}
    >
      <div className={styles.rows} style={{ height }}>
        {list.getVirtualItems().map(({ index, key, start }) => {
          const line = lines[index];
          const skipped = line && props.skipped?.get(line.id);
          return (
            line && (
              <div
                key={key}
                ref={list.measureElement}
                data-index={index}
                className={styles.at}
                style={{ transform: `translateY(${start}px)` }}
              >
                {skipped !== undefined && (
                  <p className={styles.skipped}>{t("skipped", { count: skipped })}</p>
                )}
                {line.attempt !== (lines[index - 1]?.attempt ?? 1) && (
                  <p className={styles.attempt}>{t("attemptBegins", { attempt: line.attempt })}</p>
                )}
                <Line
                  line={line}
                  search={search}
                  isCurrent={line.id === current}
                  isOpen={fieldsOpen !== toggled.has(line.id)}
                  isChosen={line.task !== null && line.task === selected}
                  onToggle={toggle}
                  onSelect={onSelect}
                  href={props.linkTo?.(line.id)}
                  startsTask={line.task !== lines[index - 1]?.task}
                />
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}

/**
 * Keeps the box at its end while that is followed: when there are other lines, when lines turn out to be taller, and
 * when the box itself gets another height. The browser knows where the end is; the sizes of the list may be older.
 */
function useEnd(box: RefObject<HTMLElement | null>, following: boolean, changes: readonly unknown[]) {
  const toEnd = useEffectEvent(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  useLayoutEffect(() => {
    if (following) toEnd();
  }, [following, ...changes]);
  useEffect(() => {
    if (!following || !box.current) return;
    const observer = new ResizeObserver(() => toEnd());
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [box, following]);
}

/** Calls `onFollow` when the user scrolls to the end or away from it. */
function useFollowing(following: boolean, onFollow: (following: boolean) => void) {
  const seen = useRef({ top: 0, geometry: "" });
  const gesture = useRef(false);
  const begin = () => {
    gesture.current = true;
  };
  return {
    onWheel: begin,
    onTouchMove: begin,
    onKeyDown: begin,
    onPointerDown: begin,
    onScroll: ({ currentTarget: box }: UIEvent<HTMLElement>) => {
      const { top, geometry } = seen.current;
      seen.current = { top: box.scrollTop, geometry: `${box.scrollHeight} ${box.clientHeight}` };
      if (box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX) {
        gesture.current = false;
        onFollow(true);
        // Lines that become shorter move the box up as well, and others are added below in the same moment.
      } else if (box.scrollTop < top && (gesture.current || geometry === seen.current.geometry)) {
        onFollow(false);
      } else if (following && !gesture.current) {
        // The list has moved the box for lines that it has measured meanwhile.
        box.scrollTop = box.scrollHeight;
      }
    },
  };
}
