/** The visible lines. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type Ref, useEffect, useImperativeHandle, useRef } from "react";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { exactTime } from "../../../i18n/time";
import { visible } from "../../../lib/visible";
import { joined } from "../../../ui/controls";
import { UserText } from "../../../ui/UserText";
import { messages } from "../messages";
import styles from "./Log.module.css";
import { type LogLine, levelOf, pieces } from "./logLines";

const LINE_PX = 19;
const NEAR_END_PX = 12;
const PADDING_PX = 12;

export interface LogRowsHandle {
  toEnd: () => void;
}
interface LogRowsProps {
  ref: Ref<LogRowsHandle>;
  lines: readonly LogLine[];
  wrap: boolean;
  search: string;
  selected: string | null;
  /** Without it, tasks are not shown. */
  onSelect?: (name: string | null) => void;
  /** Whether the last line is visible: then new lines are followed. */
  onAtEnd: (atEnd: boolean) => void;
}

export function LogRows({ ref, lines, wrap, search, selected, onSelect, onAtEnd }: LogRowsProps) {
  const t = useMessages(messages);
  const scroller = useRef<HTMLDivElement>(null);
  const top = useRef(0);
  const list = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PX,
    getItemKey: (index) => lines[index]?.id ?? index,
    overscan: 20,
  });
  useImperativeHandle(ref, () => ({ toEnd: () => list.scrollToIndex(lines.length - 1, { align: "end" }) }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: lines have other heights then.
  useEffect(() => list.measure(), [wrap]);
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
          return (
            line && (
              <div
                key={key}
                ref={list.measureElement}
                data-index={index}
                className={styles.at}
                style={{ transform: `translateY(${start}px)` }}
              >
                {line.attempt !== (lines[index - 1]?.attempt ?? 1) && (
                  <p className={styles.attempt}>{t("attemptBegins", { attempt: line.attempt })}</p>
                )}
                <Line line={line} search={search} chosen={line.task === selected} onSelect={onSelect} />
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}

interface LineProps {
  line: LogLine;
  search: string;
  chosen: boolean;
  onSelect?: (name: string | null) => void;
}

function Line({ line, search, chosen, onSelect }: LineProps) {
  const language = useLanguage();
  const level = levelOf(line);
  const { task } = line;
  return (
    <div
      className={joined(styles.line, styles[level], chosen && task !== null && styles.chosen)}
      data-stream={line.stream}
    >
      <time className={styles.time} title={exactTime(line.ts, language)}>
        {clock(line.ts)}
        <span>.{String(Math.floor((line.ts % 1) * 1000)).padStart(3, "0")}</span>
      </time>
      {onSelect === undefined ? null : task === null ? (
        <span className={styles.task} />
      ) : (
        <button
          type="button"
          className={styles.task}
          title={visible(task)}
          tabIndex={-1}
          onClick={() => onSelect(task)}
        >
          <UserText text={task} />
        </button>
      )}
      <bdi className={styles.text}>
        {pieces(line.text, search).map((piece, index) =>
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text have no other name.
          index % 2 ? <mark key={index}>{visible(piece)}</mark> : visible(piece),
        )}
      </bdi>
    </div>
  );
}

/** 18:02:31 */
const clock = (seconds: number): string => {
  const at = new Date(seconds * 1000);
  const two = (number: number) => String(number).padStart(2, "0");
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
};
