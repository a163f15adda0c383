/** The occurrences of one day, or the recent decisions: when, and what became of each. */
import { useRef } from "react";
import { href, pathTo } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import {
  clockTime,
  type Day,
  dayOf,
  dayTitle,
  hasSeconds,
  localText,
  viewerZone,
} from "../../schedules/zones";
import { joined } from "../../ui/controls";
import { StatusBadge } from "../../ui/status";
import { Tags } from "../../ui/Tags";
import { UserText } from "../../ui/UserText";
import { MarkIcon, markClass } from "./marks";
import { messages } from "./messages";
import { markOf, type Occurrence } from "./occurrences";
import styles from "./Schedule.module.css";

const MOST_SHOWN = 200;
/** Of a long day, so many past ones before the next one. */
const MOST_BEFORE = 50;

interface DayListProps {
  day: Day;
  occurrences: readonly Occurrence[];
  zone: string;
  paused: boolean;
}

export function DayList({ day, occurrences, zone, paused }: DayListProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { list, next } = useNextInView();
  const coming = occurrences.findIndex(({ kind }) => kind === "coming");
  const last = coming < 0 ? occurrences.length : coming + MOST_SHOWN - MOST_BEFORE;
  const from = Math.max(0, Math.min(last, occurrences.length) - MOST_SHOWN);
  const shown = occurrences.slice(from, from + MOST_SHOWN);
  const seconds = shown.some(({ at, until }) => hasSeconds(at) || (until !== null && hasSeconds(until)));
  const isElsewhere = shown.some(({ at }) => localText(at, zone) !== localText(at, viewerZone));
  const rest = occurrences.length - from - shown.length;
  return (
    <section className={styles.dayPart} aria-label={dayTitle(day, language)}>
      <h3>{dayTitle(day, language)}</h3>
      {isElsewhere && <p className={styles.soft}>{t("yourTimes", { zone: viewerZone })}</p>}
      {occurrences.length === 0 && <p className={styles.soft}>{t("dayNothing")}</p>}
      {/* What scrolls must be reachable with the keyboard. */}
      <div ref={list} className={styles.dayList} tabIndex={occurrences.length > 0 ? 0 : undefined}>
        {from > 0 && <p className={styles.soft}>{t("earlierOfDay", { count: from })}</p>}
        <ol className={styles.occurrences}>
          {shown.map((each, index) => (
            <li
              key={`${each.at} ${each.kind} ${each.runId ?? ""}`}
              ref={from + index === coming ? next : undefined}
              className={styles.occurrence}
            >
              <When occurrence={each} zone={zone} seconds={seconds} />
              <What occurrence={each} paused={paused} />
            </li>
          ))}
        </ol>
        {rest > 0 && <p className={styles.soft}>{t("moreOfDay", { count: rest })}</p>}
      </div>
    </section>
  );
}

/** Shows the next occurrence first when a day is opened. */
function useNextInView() {
  const list = useRef<HTMLDivElement>(null);
  const isDone = useRef(false);
  const next = (row: HTMLElement | null) => {
    if (!row || !list.current || isDone.current) return;
    isDone.current = true;
    // Not scrollIntoView, which moves the page too. The row before stays in view.
    list.current.scrollTop = row.offsetTop - list.current.offsetTop - list.current.clientHeight / 3;
  };
  return { list, next };
}

interface WhenProps {
  occurrence: Occurrence;
  zone: string;
  seconds: boolean;
}

/** The time in the schedule's zone, and below it that of the viewer if it differs. */
function When({ occurrence: { at, until }, zone, seconds }: WhenProps) {
  const language = useLanguage();
  const isElsewhere = localText(at, zone) !== localText(at, viewerZone);
  const weekday = dayOf(at, zone) !== dayOf(at, viewerZone);
  return (
    <span className={styles.at}>
      <time dateTime={new Date(at * 1000).toISOString()}>{clockTime(at, zone, language, { seconds })}</time>
      {until !== null && <span>–{clockTime(until, zone, language, { seconds })}</span>}
      {isElsewhere && (
        <span className={styles.soft}>{clockTime(at, viewerZone, language, { seconds, weekday })}</span>
      )}
    </span>
  );
}

const REASONS = [
  "overlap",
  "buffer_full",
  "replaced",
  "paused",
  "edited",
  "remaining_runs",
  "catchup_window",
  "start_failed",
  "backfill_cancelled",
] as const;

/** The run with its status, or why there is none. */
export function What({ occurrence, paused = false }: { occurrence: Occurrence; paused?: boolean }) {
  const t = useMessages(messages);
  const { kind, status, runId, droppedId, blockedBy, by, reason, detail, count, atLeast } = occurrence;
  const known = REASONS.find((each) => each === reason);
  const mark = markOf(occurrence);
  const word =
    kind === "run" ? null : kind === "coming" && paused ? t("kind.comingPaused") : t(`kind.${kind}`);
  return (
    <span className={styles.what}>
      <span className={styles.outcome}>
        {kind === "run" && status ? (
          <StatusBadge status={status} />
        ) : (
          <span className={joined(styles.kind, markClass(mark))}>
            <MarkIcon mark={mark} />
            {word}
          </span>
        )}
        {runId && kind !== "buffered" && <RunLink id={runId} />}
        {runId && kind === "buffered" && <IdOfNoRun id={runId} />}
        {droppedId && <IdOfNoRun id={droppedId} />}
        {count > 1 && (
          <span className={styles.soft}>{t(atLeast ? "severalAtLeast" : "several", { count })}</span>
        )}
        {(by === "trigger" || by === "backfill") && <Tags tags={[t(`by.${by}`)]} />}
      </span>
      {(known || detail || reason) && (
        <span className={styles.soft}>
          {known ? t(`reason.${known}`) : <UserText text={detail ?? reason ?? ""} />}{" "}
          {blockedBy && <RunLink id={blockedBy} />}
        </span>
      )}
    </span>
  );
}

/** There is no run with this id yet, or never. */
const IdOfNoRun = ({ id }: { id: string }) => (
  <span className="mono" title={id}>
    {id.slice(0, 8)}
  </span>
);

const RunLink = ({ id }: { id: string }) => (
  <a className="mono" href={href(pathTo("/runs/:id", { id }))} title={id}>
    {id.slice(0, 8)}
  </a>
);
