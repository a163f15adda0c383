/** The visible lines. */

import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type Ref,
  useCallback,
  useEffect,
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
  toEnd: () => void;
  toLine: (id: string) => void;
  /** Loads earlier lines; those that are visible stay where they are. */
  keepPlace: (load: () => void) => void;
}
interface LogRowsProps {
  ref: Ref<LogRowsHandle>;
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
  /** Whether the last line is visible: then new lines are followed. */
  onAtEnd: (atEnd: boolean) => void;
  /** The URL of a line; without it, lines have no link. */
  linkTo?: (id: string) => string;
}

export function LogRows(props: LogRowsProps) {
  const { ref, lines, wrap, search, current = null, selected, fieldsOpen = false, onSelect, onAtEnd } = props;
  const t = useMessages(messages);
  const scroller = useRef<HTMLDivElement>(null);
  const top = useRef(0);
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
    toEnd: () => list.scrollToIndex(lines.length - 1, { align: "end" }),
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
      style={{ height: list.getTotalSize() + PADDING_PX }}
      role="log"
      aria-label={t("log")}
      aria-live="off"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
      tabIndex={0}
      onScroll={({ currentTarget: box }) => {
        const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
        // Lines that were added below meanwhile are no reason to stop following.
        if (isAtEnd || box.scrollTop < top.current) onAtEnd(isAtEnd);
        top.current = box.scrollTop;
      }}
    >
      <div className={styles.rows} style={{ height: list.getTotalSize() }}>
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
                />
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}
