/** Params of the run, and what failed in it. An error that no task has is in the explanation above. */

import { useMessages } from "../../../i18n/messages";
import { CopyButton } from "../../../ui/Copy";
import { UserText } from "../../../ui/UserText";
import { messages } from "../messages";
import { failuresOf, type Run, type Task } from "../run";
import styles from "./Details.module.css";
import { JsonValue } from "./JsonValue";
import { ErrorOf, Part } from "./TaskDetails";

const MOST_SHOWN = 3;

interface RunDetailsProps {
  run: Run;
  tasks: readonly Task[];
  onSelect: (name: string | null) => void;
}

export function RunDetails({ run, tasks, onSelect }: RunDetailsProps) {
  const t = useMessages(messages);
  const failures = failuresOf(tasks);
  return (
    <div className={styles.content}>
      <dl className={styles.pairs}>
        <dt>{t("runId")}</dt>
        <dd className={styles.id}>
          <code>{run.run_id}</code>
          <CopyButton text={run.run_id} />
        </dd>
        {run.reason && (
          <>
            <dt>{t("reason")}</dt>
            <dd>
              <code>{run.reason}</code>
            </dd>
          </>
        )}
        {run.workflow_yaml_sha256 && (
          <>
            <dt>flow.yaml</dt>
            <dd>
              <code title={run.workflow_yaml_sha256}>{run.workflow_yaml_sha256.slice(0, 12)}</code>
            </dd>
          </>
        )}
        {run.tenant_id && (
          <>
            <dt>{t("tenant")}</dt>
            <dd>
              <UserText text={run.tenant_id} />
            </dd>
          </>
        )}
      </dl>
      {failures.slice(0, MOST_SHOWN).map(({ name, record }) => (
        <Part
          key={name}
          title={
            <>
              {t("errorOf")}{" "}
              <button type="button" className={styles.link} onClick={() => onSelect(name)}>
                <UserText text={name} />
              </button>
            </>
          }
        >
          <ErrorOf record={record} />
        </Part>
      ))}
      <Part title={t("params")}>
        {Object.keys(run.params).length > 0 ? (
          <JsonValue value={run.params} label={t("params")} />
        ) : (
          <p className={styles.soft}>{t("noParams")}</p>
        )}
        {run.params_sha256 && <p className={styles.soft}>{t("paramsTruncated")}</p>}
      </Part>
      {lastOutputs(tasks).map(({ name, record }) => (
        <Part key={name} title={t("outputOf", { task: name })}>
          <JsonValue value={record.output} label={t("outputOf", { task: name })} />
        </Part>
      ))}
      {run.task_records_truncated && <p className={styles.soft}>{t("recordsTruncated")}</p>}
    </div>
  );
}

/** The outputs of the last tasks, usually the result of the run. */
function lastOutputs(tasks: readonly Task[]): Task[] {
  const followed = new Set(tasks.flatMap((each) => each.record.after ?? []));
  return tasks
    .filter(({ name, record }) => !followed.has(name) && record.output != null)
    .slice(0, MOST_SHOWN);
}
