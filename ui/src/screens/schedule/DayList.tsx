/** The occurrences of one day, or the recent decisions: when, and what became of each. */
import { href, pathTo } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { clockTime, type Day, dayTitle, usableZone, viewerZone } from "../../schedules/zones";
import { joined } from "../../ui/controls";
import { StatusBadge } from "../../ui/status";
import { Tags } from "../../ui/Tags";
import { UserText } from "../../ui/UserText";
import { MarkIcon, markClass } from "./marks";
import { messages } from "./messages";
import { markOf, type Occurrence } from "./occurrences";
import styles from "./Schedule.module.css";

const MOST_SHOWN = 200;

interface DayListProps {
  day: Day;
  occurrences: readonly Occurrence[];
  zone: string;
  paused: boolean;
}

export function DayList({ day, occurrences, zone, paused }: DayListProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  return (
    <div className={styles.dayList}>
      <h3>{dayTitle(day, language)}</h3>
      {occurrences.length === 0 && <p className={styles.soft}>{t("dayNothing")}</p>}
      <ol className={styles.occurrences}>
        {occurrences.slice(0, MOST_SHOWN).map((each) => (
          <li key={`${each.at} ${each.kind} ${each.runId ?? ""}`} className={styles.occurrence}>
            <When occurrence={each} zone={zone} />
            <What occurrence={each} paused={paused} />
          </li>
        ))}
      </ol>
      {occurrences.length > MOST_SHOWN && (
        <p className={styles.soft}>{t("moreOfDay", { count: occurrences.length - MOST_SHOWN })}</p>
      )}
    </div>
  );
}

function When({ occurrence: { at, until }, zone }: { occurrence: Occurrence; zone: string }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const own = clockTime(at, viewerZone, language);
  const isElsewhere = usableZone(zone) !== viewerZone && own !== clockTime(at, zone, language);
  return (
    <span className={styles.at}>
      <time dateTime={new Date(at * 1000).toISOString()}>{clockTime(at, zone, language)}</time>
      {until !== null && <span>–{clockTime(until, zone, language)}</span>}
      {isElsewhere && <span className={styles.soft}>{t("yourTime", { time: own })}</span>}
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
] as const;

/** The run with its status, or why there is none. */
export function What({ occurrence, paused = false }: { occurrence: Occurrence; paused?: boolean }) {
  const t = useMessages(messages);
  const { kind, status, runId, by, reason, detail, count, atLeast } = occurrence;
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
        {runId && (
          <a className="mono" href={href(pathTo("/runs/:id", { id: runId }))} title={runId}>
            {runId.slice(0, 8)}
          </a>
        )}
        {count > 1 && (
          <span className={styles.soft}>{t(atLeast ? "severalAtLeast" : "several", { count })}</span>
        )}
        {(by === "trigger" || by === "backfill") && <Tags tags={[t(`by.${by}`)]} />}
      </span>
      {(known || detail || reason) && (
        <span className={styles.soft}>
          {known ? t(`reason.${known}`) : <UserText text={detail ?? reason ?? ""} />}
        </span>
      )}
    </span>
  );
}
