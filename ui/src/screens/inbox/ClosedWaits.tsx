/** Questions that are not open any more: who answered what, and when; or why nobody did. */
import { MessageCircleQuestion } from "lucide-react";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Button, joined } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { toneClass } from "../../ui/status";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages as waitMessages } from "../wait/messages";
import { nameOf } from "../wait/wait";
import { CLOSED_STATES, type ClosedView } from "./filters";
import styles from "./Inbox.module.css";
import { messages } from "./messages";
import { AskedBy } from "./WaitList";

type Item = Schemas["WaitItem"];

const EVERY_MS = 5_000;
const PAGE = 50;

interface ClosedWaitsProps {
  view: ClosedView;
  selected: string | null;
  hrefOf: (wait: { wait_id: string }) => string;
}

export function ClosedWaits({ view, selected, hrefOf }: ClosedWaitsProps) {
  const t = useMessages(messages);
  // The cursors of the pages before this one, and its own.
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const cursor = cursors.at(-1);
  const { data, error, isPending, refetch } = useRead(
    ["waits", "closed", view, cursor ?? ""],
    (signal) =>
      api.GET("/waits", {
        params: { query: { state: [...CLOSED_STATES[view]], limit: PAGE, ...(cursor && { cursor }) } },
        signal,
      }),
    { keep: true, every: cursor ? undefined : EVERY_MS },
  );
  const next = data?.next_cursor ?? null;
  if (error) return <ProblemBox problem={error} onRetry={() => void refetch()} />;
  if (isPending) return <Loading />;
  if (data?.items.length === 0)
    return (
      <EmptyState icon={MessageCircleQuestion} title={t(`empty.${view}`)}>
        {t(`emptyText.${view}`)}
      </EmptyState>
    );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
    <div className={styles.list} role="region" aria-label={t(`view.${view}`)} tabIndex={0}>
      <ul className={styles.closedList}>
        {data?.items.map((wait) => (
          <li key={wait.wait_id}>
            <ClosedRow wait={wait} current={wait.wait_id === selected} href={hrefOf(wait)} />
          </li>
        ))}
      </ul>
      {(next !== null || cursor) && (
        <div className={styles.pages}>
          <Button disabled={!cursor} onClick={() => setCursors(cursors.slice(0, -1))}>
            {t("newer")}
          </Button>
          <Button disabled={next === null} onClick={() => next && setCursors([...cursors, next])}>
            {t("older")}
          </Button>
        </div>
      )}
    </div>
  );
}

const TONES: Record<string, string> = {
  answered: "COMPLETED",
  approved: "COMPLETED",
  edited: "COMPLETED",
  rejected: "FAILED",
  expired: "CANCELLING",
};

function ClosedRow({ wait, current, href }: { wait: Item; current: boolean; href: string }) {
  const t = useMessages(waitMessages);
  const end = wait.decision ?? (wait.state as "answered" | "expired" | "cancelled" | "withdrawn");
  const isByPerson = wait.state === "answered" || wait.state === "withdrawn";
  return (
    <a className={styles.row} href={href} aria-current={current || undefined} data-closed={wait.wait_id}>
      <span className={styles.message}>
        <UserText text={wait.message} />
      </span>
      <span className={joined(styles.facts, styles.decision)}>
        <strong className={joined(styles.end, toneClass(TONES[end] ?? "CANCELLED"))}>
          {t(`end.${end}`)}
        </strong>
        {isByPerson && <span>{t("by", { who: nameOf(wait.decided_by) ?? t("somebody") })}</span>}
        {wait.answer !== null && (
          <span className={styles.answer} title={wait.answer}>
            <UserText text={wait.answer} />
          </span>
        )}
      </span>
      <span className={styles.facts}>
        <AskedBy wait={wait} />
        <span className={styles.asked}>
          <Ago at={wait.decided_at ?? wait.created_at} />
        </span>
      </span>
    </a>
  );
}
