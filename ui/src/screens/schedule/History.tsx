/** The recent decisions, and the newest runs. */
import { Activity, Gavel } from "lucide-react";
import { href, pathTo } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import type { Schedule } from "../../schedules/schedule";
import { clockTime, dayOf, hasSeconds, zonedTime } from "../../schedules/zones";
import { StatusBadge } from "../../ui/status";
import { Ago, Duration } from "../../ui/time";
import { Panel } from "../run/Panel";
import { What } from "./DayList";
import { messages } from "./messages";
import { occurrencesOf, ownRun } from "./occurrences";
import styles from "./Schedule.module.css";
import type { RunRow } from "./useScheduleData";

const MOST_RUNS = 10;

export function Decisions({ schedule, runs }: { schedule: Schedule; runs: readonly RunRow[] }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const newest = [...schedule.decisions].reverse();
  const zone = schedule.spec.timezone;
  const seconds = newest.some(
    ({ scheduled_for: at, until }) => hasSeconds(at) || (until != null && hasSeconds(until)),
  );
  const untilText = (at: number, until: number) =>
    dayOf(at, zone) === dayOf(until, zone)
      ? clockTime(until, zone, language, { seconds })
      : zonedTime(until, zone, language, { seconds });
  return (
    <Panel
      title={t("decisions")}
      icon={Gavel}
      actions={
        newest.length > 0 && (
          <span className={styles.soft}>{t("decisionsNote", { count: newest.length })}</span>
        )
      }
    >
      {newest.length === 0 && <p className={styles.nothing}>{t("noDecisions")}</p>}
      <ol className={styles.rows}>
        {newest.map((decision) => {
          const started = runs.filter((run) => run.run_id === ownRun(decision));
          const [occurrence] = occurrencesOf(started, [decision], []);
          const { scheduled_for: at, until } = decision;
          const from = zonedTime(at, zone, language, { seconds });
          return (
            <li
              key={`${decision.at} ${decision.scheduled_for} ${decision.outcome} ${decision.run_id ?? ""}`}
              className={styles.decision}
            >
              <span>{until ? t("range", { from, until: untilText(at, until) }) : from}</span>
              {occurrence ? <What occurrence={occurrence} /> : <span>{decision.outcome}</span>}
              <span className={styles.ago} title={t("decidedAt")}>
                <Ago at={decision.at} />
              </span>
            </li>
          );
        })}
      </ol>
    </Panel>
  );
}

export function Runs({ id, runs }: { id: string; runs: readonly RunRow[] | undefined }) {
  const t = useMessages(messages);
  return (
    <Panel
      title={t("runs")}
      icon={Activity}
      actions={<a href={href("/runs", { cause: `schedule:${id}` })}>{t("allRuns")}</a>}
    >
      {runs?.length === 0 && <p className={styles.nothing}>{t("noRuns")}</p>}
      <ul className={styles.rows}>
        {runs?.slice(0, MOST_RUNS).map((run) => (
          <li key={run.run_id} className={styles.run} data-run={run.run_id}>
            <StatusBadge status={run.status} />
            <a className="mono" href={href(pathTo("/runs/:id", { id: run.run_id }))} title={run.run_id}>
              {run.run_id.slice(0, 8)}
            </a>
            <span className={styles.soft}>
              {run.start_time != null && <Duration from={run.start_time} to={run.end_time} />}
            </span>
            <span className={styles.ago}>
              <Ago at={run.submitted_at} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
