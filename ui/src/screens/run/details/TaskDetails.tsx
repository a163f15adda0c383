/** Inputs, output and error of one task. */

import { RotateCcw } from "lucide-react";
import type { ReactNode } from "react";
import { href, pathTo } from "../../../app/router";
import { listText, useMessages } from "../../../i18n/messages";
import { duration } from "../../../i18n/time";
import { Button, ButtonLink } from "../../../ui/controls";
import { isTerminal, StatusBadge } from "../../../ui/status";
import { Ago, Duration } from "../../../ui/time";
import { UserText } from "../../../ui/UserText";
import { messages } from "../messages";
import { useRerun } from "../reruns";
import { openWaits, type Run, type Task, type TaskRecord, tookOf } from "../run";
import styles from "./Details.module.css";
import { JsonValue } from "./JsonValue";
import { Traceback } from "./Traceback";

interface TaskDetailsProps {
  run: Run;
  task: Task;
  onSelect: (name: string | null) => void;
}

export function TaskDetails({ run, task, onSelect }: TaskDetailsProps) {
  const t = useMessages(messages);
  const rerun = useRerun(run.run_id);
  const { name, state, record } = task;
  const wait = openWaits(run, "human").find((each) => each.task === name);
  const over = isTerminal(run.status);
  return (
    <div className={styles.content}>
      <div className={styles.taskHead}>
        <h3>
          <UserText text={name} />
        </h3>
        <StatusBadge status={state} />
      </div>
      <dl className={styles.pairs}>
        <dt>{t("started")}</dt>
        <dd>
          <Ago at={record.started_at} />
        </dd>
        <dt>{t("took")}</dt>
        <dd>
          <Took run={run} task={task} />
        </dd>
        {record.after && record.after.length > 0 && (
          <>
            <dt>{t("after")}</dt>
            <dd className={styles.links}>
              {record.after.map((each) => (
                <button type="button" key={each} className={styles.link} onClick={() => onSelect(each)}>
                  <UserText text={each} />
                </button>
              ))}
            </dd>
          </>
        )}
        {(record.calls ?? 1) > 1 && (
          <>
            <dt>{t("executed")}</dt>
            <dd>{t("calls", { count: record.calls ?? 1 })}</dd>
          </>
        )}
      </dl>
      {record.replayed && <p className={styles.soft}>{t("replayedText")}</p>}
      {record.not_journalled && (
        <p className={styles.warning}>{t("notJournalled", { reason: record.not_journalled })}</p>
      )}
      {record.executed_again && (
        <p className={styles.warning}>{t("executedAgain", { reason: record.executed_again })}</p>
      )}
      {wait && (
        <ButtonLink kind="primary" href={href(pathTo("/waits/:id", { id: wait.wait_id }))}>
          {t("answer")}
        </ButtonLink>
      )}
      {(record.error || record.traceback) && (
        <Part title={t("error")}>
          <ErrorOf record={record} />
        </Part>
      )}
      {filled(record.inputs) && (
        <Part title={t("inputs")}>
          <JsonValue value={record.inputs} label={t("inputs")} />
        </Part>
      )}
      {record.output != null && (
        <Part title={t("output")}>
          <JsonValue value={record.output} label={t("output")} />
        </Part>
      )}
      {filled(record.artifacts) && (
        <Part title={t("artifacts")}>
          <JsonValue value={record.artifacts} label={t("artifacts")} />
        </Part>
      )}
      {record.not_json && record.not_json.length > 0 && (
        <p className={styles.warning}>{t("notJson", { values: listText(record.not_json) })}</p>
      )}
      {record.truncated && record.truncated.length > 0 && (
        <p className={styles.soft}>{t("truncated", { fields: listText(record.truncated) })}</p>
      )}
      {!over && record.started_at != null && <p className={styles.soft}>{t("valuesAtEnd")}</p>}
      {over && (
        <div>
          <Button disabled={rerun.isPending} onClick={() => rerun.mutate({ mode: "task", task: name })}>
            <RotateCcw size={13} aria-hidden />
            {t("rerunHere")}
          </Button>
        </div>
      )}
    </div>
  );
}

function Took({ run, task }: { run: Run; task: Task }) {
  const took = tookOf(task, run.end_time);
  if (took !== null) return <span>{duration(took)}</span>;
  return <Duration from={task.record.latest_calls?.[0]?.started_at ?? task.record.started_at} />;
}

/** The error and its traceback, which ends with the error. */
export function ErrorOf({ record: { error, traceback } }: { record: TaskRecord }) {
  return (
    <>
      {error && !traceback?.includes(error) && (
        <p className={styles.error}>
          <UserText text={error} />
        </p>
      )}
      {traceback && <Traceback text={traceback} />}
    </>
  );
}

export function Part({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <section className={styles.part}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

const filled = (value: unknown): boolean =>
  value != null && !(typeof value === "object" && Object.keys(value).length === 0);
