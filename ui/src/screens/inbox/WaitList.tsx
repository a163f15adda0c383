/** The open questions, the next deadline first. Only visible rows are rendered. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { CircleCheck, FileDiff, Users } from "lucide-react";
import type { HumanWait } from "pyoco-server-react";
import { useEffect, useRef } from "react";
import { useRestoredScroll } from "../../app/restoredState";
import { listText, useMessages } from "../../i18n/messages";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { Deadline } from "../wait/Deadline";
import styles from "./Inbox.module.css";
import { messages } from "./messages";

const ROW_PX = 84;

interface WaitListProps {
  waits: readonly HumanWait[];
  selected: string | null;
  hrefOf: (wait: HumanWait) => string;
}

export function WaitList({ waits, selected, hrefOf }: WaitListProps) {
  const t = useMessages(messages);
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: waits.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    getItemKey: (at) => waits[at]?.wait_id ?? at,
    overscan: 6,
  });
  const place = waits.findIndex(({ wait_id }) => wait_id === selected);
  // Back restores the list, even if the selected question is not visible there.
  const settled = useRef(useRestoredScroll("inbox", () => box.current) === undefined ? null : selected);
  useEffect(() => {
    if (place < 0 || settled.current === selected) return;
    settled.current = null;
    rows.scrollToIndex(place);
  }, [place, selected, rows]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
    <div ref={box} className={styles.list} role="region" aria-label={t("list")} tabIndex={0}>
      <ul style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, start, key }) => {
          const wait = waits[index];
          return (
            wait && (
              <li key={key} style={{ transform: `translateY(${start}px)`, height: ROW_PX }}>
                <WaitRow wait={wait} current={wait.wait_id === selected} href={hrefOf(wait)} />
              </li>
            )
          );
        })}
      </ul>
    </div>
  );
}

/** The flow and the task that ask. */
export function AskedBy({ wait }: { wait: { flow_name: string; task: string } }) {
  return (
    <span className={styles.place}>
      <strong>
        <UserText text={wait.flow_name} />
      </strong>{" "}
      · <UserText text={wait.task} />
    </span>
  );
}

function WaitRow({ wait, current, href }: { wait: HumanWait; current: boolean; href: string }) {
  const t = useMessages(messages);
  return (
    <a className={styles.row} href={href} aria-current={current || undefined} data-wait={wait.wait_id}>
      <span className={styles.line}>
        <span className={styles.message}>
          <UserText text={wait.message} />
        </span>
        <Deadline at={wait.deadline_at} />
      </span>
      <span className={styles.facts}>
        <AskedBy wait={wait} />
        {wait.proposal_digest !== null && (
          <span className={styles.fact}>
            <FileDiff size={12} aria-hidden />
            {t("proposal")}
          </span>
        )}
        {(wait.required ?? 1) > 1 && (
          <span className={styles.fact}>
            <CircleCheck size={12} aria-hidden />
            {t("approvals", { count: wait.approvals ?? 0, required: wait.required ?? 1 })}
          </span>
        )}
        {wait.assignees.length > 0 && (
          <span className={styles.fact}>
            <Users size={12} aria-hidden />
            <UserText text={listText(wait.assignees)} />
          </span>
        )}
        <span className={styles.asked}>
          <Ago at={wait.created_at} />
        </span>
      </span>
    </a>
  );
}
