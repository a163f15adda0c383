/** The run in brief: times, worker, tag. */

import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { href, pathTo } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { exactTime } from "../../i18n/time";
import { CauseMark } from "../../ui/cause";
import { Fact, FactList } from "../../ui/FactList";
import { isTerminal } from "../../ui/status";
import { Labels } from "../../ui/Tags";
import { Ago, Duration } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import styles from "./Run.module.css";
import type { Run } from "./run";

const MOST_REPEATS = 5;
/** A rerun names its origin in a fact of its own. */
const PLAIN: ReadonlySet<string> = new Set(["api", "rerun"]);

export function RunFacts({ run }: { run: Run }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const repeats = useRepeats(run);
  const labels = run.tags.filter((each) => each !== run.tag);
  const { cause } = run;
  return (
    <FactList className={styles.facts}>
      {run.status === "SCHEDULED" && run.start_at != null && (
        <Fact name={t("starts")}>
          <Ago at={run.start_at} />
          <span className={styles.soft}>{exactTime(run.start_at, language)}</span>
        </Fact>
      )}
      {cause && !PLAIN.has(cause.kind) && (
        <Fact name={t("cause")}>
          <CauseMark cause={cause} tenant={run.tenant_id} />
          {cause.at != null && (
            <span className={styles.soft}>{t("forTime", { time: exactTime(cause.at, language) })}</span>
          )}
        </Fact>
      )}
      <Fact name={t("submitted")}>
        <Ago at={run.submitted_at} />
      </Fact>
      <Fact name={t("started")}>
        <Ago at={run.start_time} />
      </Fact>
      <Fact name={t("took")}>
        <Duration from={run.start_time} to={run.end_time} />
      </Fact>
      {run.worker_id && (
        <Fact name={t("worker")}>
          <a href={href("/runs", { worker: run.worker_id })}>
            <UserText text={run.worker_id} />
          </a>
        </Fact>
      )}
      {run.code_version && (
        <Fact name={t("codeVersion")}>
          <code title={t("codeVersionHint", { version: run.code_version })}>
            {run.code_version.slice(0, 8)}
          </code>
        </Fact>
      )}
      <Fact name={t("tag")}>
        <a href={href("/runs", { tag: run.tag })}>
          <UserText text={run.tag} />
        </a>
      </Fact>
      {labels.length > 0 && (
        <Fact name={t("labels")}>
          <Labels labels={labels} />
        </Fact>
      )}
      {run.attempt > 1 && <Fact name={t("attempt")}>{run.attempt}</Fact>}
      {run.timeout_sec != null && (
        <Fact name={t("limit")}>
          <Duration from={0} to={run.timeout_sec} />
        </Fact>
      )}
      {run.origin_run_id && (
        <Fact name={t("origin")}>
          <RunLink id={run.origin_run_id} />
          <span className={styles.soft}>
            {run.rerun_mode === "task"
              ? t("fromTask", { task: run.rerun_task ?? "" })
              : run.rerun_mode && t(`mode.${run.rerun_mode}`)}
          </span>
        </Fact>
      )}
      {repeats.length > 0 && (
        <Fact name={t("reruns")}>
          {repeats.slice(0, MOST_REPEATS).map((each) => (
            <RunLink key={each} id={each} />
          ))}
          {repeats.length > MOST_REPEATS && (
            <a href={href("/runs", { origin: run.run_id })}>{t("allReruns")}</a>
          )}
        </Fact>
      )}
    </FactList>
  );
}

export function RunLink({ id }: { id: string }) {
  return (
    <a className="mono" href={href(pathTo("/runs/:id", { id }))} title={id}>
      {id.slice(0, 8)}
    </a>
  );
}

/** The reruns of this run; only an ended run can have any. */
function useRepeats(run: Run): string[] {
  const found = useRead(
    ["reruns", run.run_id],
    (signal) =>
      api.GET("/runs", { params: { query: { origin: run.run_id, limit: MOST_REPEATS + 1 } }, signal }),
    { enabled: isTerminal(run.status) },
  );
  const items = Array.isArray(found.data) ? found.data : (found.data?.items ?? []);
  return items.map((each) => each.run_id);
}
