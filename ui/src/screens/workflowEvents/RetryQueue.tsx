/** Events that the server sends again, and a drain of those that are due. */

import { RefreshCw } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { useRead } from "../../api/queries";
import { href, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { secondsOf } from "../../schedules/schedule";
import { drainRetryJobs, type RetryJob, readRetryJobs } from "../../triggers/eventApi";
import { EVENTS } from "../../triggers/eventToken";
import { messages as common } from "../../triggers/messages";
import { Outcome } from "../../triggers/Outcome";
import styles from "../../triggers/Triggers.module.css";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button } from "../../ui/controls";
import { Fact, FactList } from "../../ui/FactList";
import { ProblemBox } from "../../ui/feedback";
import { InputField } from "../../ui/fields";
import { TableHead } from "../../ui/TableHead";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { Panel } from "../run/Panel";
import local from "./Events.module.css";
import { messages } from "./messages";
import { JOBS, useEventWords } from "./words";

const EVERY_MS = 5_000;

export function RetryQueue() {
  const t = useMessages(messages);
  const { job } = useEventWords();
  const [draining, setDraining] = useState(false);
  const may = useMay("POST /api/workflow-events/retry-jobs/drain");
  const { data, error } = useRead([EVENTS, "retry-jobs"], readRetryJobs, { every: EVERY_MS });
  return (
    <Panel
      title={t("queue")}
      icon={RefreshCw}
      actions={
        <span className={styles.actions}>
          {data && (
            <span className={styles.soft}>{t("queueNote", { count: data.total, due: data.due })}</span>
          )}
          <Button disabled={!may || !data || data.total === 0} onClick={() => setDraining(true)}>
            {t("drain")}
          </Button>
        </span>
      }
    >
      {error && <ProblemBox problem={error} />}
      {data && (
        <div className={local.facts}>
          <FactList>
            {JOBS.map((name) => (
              <Fact key={name} name={job(name)}>
                <span data-jobs={name}>{data.by_status[name]}</span>
              </Fact>
            ))}
          </FactList>
        </div>
      )}
      {data && data.jobs.length > 0 ? (
        <JobTable jobs={data.jobs} />
      ) : (
        data && <p className={styles.nothing}>{t("queueEmpty")}</p>
      )}
      {data && (
        <p className={styles.nothing}>
          {t("policy", {
            attempts: data.policy.max_attempts,
            delay: data.policy.base_delay_seconds,
          })}
        </p>
      )}
      {draining && <DrainDialog onClose={() => setDraining(false)} />}
    </Panel>
  );
}

function JobTable({ jobs }: { jobs: readonly RetryJob[] }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  return (
    <table className={styles.table}>
      <TableHead
        columns={[
          t("status"),
          t("template"),
          t("key"),
          t("attemptsHead"),
          t("nextRetry"),
          t("lastError"),
          c("run"),
        ]}
      />
      <tbody>
        {jobs.map((job) => (
          <JobRow key={job.job_id} job={job} />
        ))}
      </tbody>
    </table>
  );
}

function JobRow({ job }: { job: RetryJob }) {
  const t = useMessages(messages);
  const { job: word } = useEventWords();
  return (
    <tr data-job={job.idempotency_key}>
      <td>
        <Outcome outcome={job.status} label={word(job.status)} />
      </td>
      <td>
        <a href={href(pathTo("/templates/:id", { id: job.template_id }))}>
          <UserText text={job.template_name || job.template_id} />
        </a>
      </td>
      <td>
        <code>
          <UserText text={job.idempotency_key} />
        </code>
      </td>
      <td>{t("attempts", { attempts: job.attempts, max: job.max_attempts })}</td>
      <td>{job.next_retry_at && <Ago at={secondsOf(job.next_retry_at)} />}</td>
      <td>{job.last_error && <UserText text={job.last_error} />}</td>
      <td>
        {job.last_run_id && (
          <a className="mono" href={href(pathTo("/runs/:id", { id: job.last_run_id }))}>
            {job.last_run_id.slice(0, 8)}
          </a>
        )}
      </td>
    </tr>
  );
}

const MOST = 50;

function DrainDialog({ onClose }: { onClose: () => void }) {
  const t = useMessages(messages);
  const [limit, setLimit] = useState("10");
  const [force, setForce] = useState(false);
  return (
    <ConfirmDialog
      title={t("drainTitle")}
      text={t("drainText")}
      confirm={t("doDrain")}
      kind="primary"
      refresh={[[EVENTS]]}
      act={() => drainRetryJobs({ limit: Number(limit), force })}
      onDone={(done) => showToast({ tone: "good", title: t("drained", { ...done }) })}
      onClose={onClose}
    >
      <InputField
        label={t("drainLimit")}
        type="number"
        min={1}
        max={MOST}
        value={limit}
        onChange={setLimit}
      />
      <label className={styles.check}>
        <input type="checkbox" checked={force} onChange={(event) => setForce(event.target.checked)} />
        {t("drainForce")}
      </label>
    </ConfirmDialog>
  );
}
