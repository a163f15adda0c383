/** The main figures, each linked to what it counts. */
import type { ReactNode } from "react";
import type { Schemas } from "../../api/client";
import { href } from "../../app/router";
import { type End, sumOf } from "../../charts/ends";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { relativeTime } from "../../i18n/time";
import { useNow } from "../../lib/clock";
import { joined } from "../../ui/controls";
import { toneClass } from "../../ui/status";
import { age, oldestPendingSec } from "./age";
import { endedHref } from "./chart";
import styles from "./Home.module.css";
import { messages } from "./messages";
import type { Overview } from "./warnings";

interface FiguresProps {
  overview: Overview;
  waits: Schemas["WaitPage"] | undefined;
}

export function Figures({ overview, waits }: FiguresProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const now = useNow();
  const { statuses, workers, window } = overview;
  const ended = sumOf(overview.ended);
  const all = ended.completed + ended.failed + ended.cancelled;
  const oldest = oldestPendingSec(overview.queues);
  const lost = overview.lost_runs.reduce((sum, { runs }) => sum + runs, 0);
  const next = waits?.items[0];
  const inPeriod = (end: End) => t("endedIn", { end: t(`end.${end}`), period: t(`period.${window}`) });
  // Shown only if there are any: most installations have neither.
  const further = (["SCHEDULED", "WAITING"] as const).filter((status) => (statuses[status] ?? 0) > 0);
  return (
    <ul
      className={joined(styles.figures, further.length > 0 && styles.manyFigures)}
      aria-label={t("figures")}
    >
      <Figure
        to={href("/runs", { status: "RUNNING" })}
        label={t("running")}
        status="RUNNING"
        count={statuses.RUNNING}
      >
        {lost > 0 ? t("withoutWorker", { count: lost }) : t("now")}
      </Figure>
      <Figure
        to={href("/runs", { status: "PENDING" })}
        label={t("pending")}
        status="PENDING"
        count={statuses.PENDING}
      >
        {oldest !== null ? t("oldestWaits", { time: age(oldest) }) : t("noneQueued")}
      </Figure>
      <Figure
        to={href("/inbox")}
        label={t("waiting")}
        status="WAITING_HUMAN"
        count={waits?.total ?? statuses.WAITING_HUMAN}
      >
        {next?.deadline_at != null
          ? t("nextDeadline", { when: relativeTime(next.deadline_at, now, language) ?? t("now") })
          : t("now")}
      </Figure>
      {further.map((status) => (
        <Figure
          key={status}
          to={href("/runs", { status })}
          label={t(`further.${status}`)}
          status={status}
          count={statuses[status]}
        >
          {t(`furtherNote.${status}`)}
        </Figure>
      ))}
      <Figure
        to={endedHref(window, "failed")}
        label={inPeriod("failed")}
        status="FAILED"
        count={ended.failed}
      >
        {all > 0 ? t("endedShare", { share: share(ended.failed / all, language) }) : t("noneEnded")}
      </Figure>
      <Figure
        to={endedHref(window, "completed")}
        label={inPeriod("completed")}
        status="COMPLETED"
        count={ended.completed}
      >
        {all > 0 ? t("endedShare", { share: share(ended.completed / all, language) }) : t("noneEnded")}
      </Figure>
      <Figure to={href("/workers")} label={t("workersAlive")} count={workers.alive}>
        {t("slotsBusy", { busy: workers.slots_busy, slots: workers.slots })}
      </Figure>
    </ul>
  );
}

const share = (part: number, language: string): string =>
  part.toLocaleString(language, { style: "percent", maximumFractionDigits: part < 0.1 ? 1 : 0 });

interface FigureProps {
  to: string;
  label: string;
  /** The status whose colour it has; default: text colour. */
  status?: string;
  count: number | undefined;
  children: ReactNode;
}

function Figure({ to, label, status, count = 0, children }: FigureProps) {
  const language = useLanguage();
  return (
    <li>
      <a href={to} className={joined(styles.figure, status && toneClass(status), count === 0 && styles.none)}>
        <span className={styles.figureLabel}>{label}</span>
        <span className={styles.figureCount}>{count.toLocaleString(language)}</span>
        <span className={styles.figureNote}>{children}</span>
      </a>
    </li>
  );
}
