/** The details of a worker. */
import { type ReactNode, useState } from "react";
import { href, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/controls";
import { StatusBadge } from "../../ui/status";
import { Tags } from "../../ui/Tags";
import { Ago, Duration } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import { Resources } from "./Resources";
import { CurrentRuns, LastKnownRuns } from "./Slots";
import type { RunsById } from "./useWorkers";
import { WheelSync } from "./WheelSync";
import { WorkerHistory } from "./WorkerHistory";
import styles from "./Workers.module.css";
import { isOnline, type Worker } from "./workers";

/** The record of a worker has no more; the catalogue has all (records/workers/worker_models.py). */
const MAX_LISTED_FLOWS = 200;
/** Until somebody asks for all. */
const FIRST_FLOWS = 20;
const STOP_REASONS = ["drained", "graceful_shutdown"] as const;

export function WorkerDetails({ worker, runs }: { worker: Worker; runs: RunsById }) {
  const t = useMessages(messages);
  return (
    <div className={styles.details}>
      <section>
        <h3>{t("about")}</h3>
        <dl className={styles.facts}>
          <Fact name={t("lastSeen")}>
            <Ago at={worker.last_seen_at} />
          </Fact>
          <Fact name={t("lastProgress")}>
            {worker.last_progress_at ? <Ago at={worker.last_progress_at} /> : t("noProgress")}
          </Fact>
          {worker.stop_reason && (
            <Fact name={t("stopReason")}>
              <StopReason reason={worker.stop_reason} />
            </Fact>
          )}
          {worker.executor_error && (
            <Fact name={t("executorError")}>
              <code>{worker.executor_error}</code>
            </Fact>
          )}
          <Fact name={t("tags")}>
            <Tags tags={worker.tags} />
          </Fact>
          <Fact name={t("versions")}>
            {t("versionsOf", { server: worker.version, engine: worker.pyoco_version })}
          </Fact>
          <Fact name={t("instance")}>
            <code>{worker.instance_id}</code>
          </Fact>
        </dl>
      </section>
      <Resources worker={worker} />
      <section>
        <h3>{t("runs")}</h3>
        {worker.slots_busy > 0 ? (
          isOnline(worker) ? (
            <CurrentRuns worker={worker} runs={runs} />
          ) : (
            <LastKnownRuns worker={worker} runs={runs} />
          )
        ) : (
          <p className={styles.faint}>{t("nothingToDo")}</p>
        )}
        <LastRun worker={worker} />
        <p>
          <a href={href("/runs", { worker: worker.worker_id })}>{t("allRuns")}</a>
        </p>
      </section>
      <Flows flows={worker.flows} />
      <WorkerHistory worker={worker} />
      <WheelSync sync={worker.wheel_sync} />
    </div>
  );
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** The flows of its folder, with links to what is known of them. */
export function Flows({ flows }: { flows: readonly string[] }) {
  const t = useMessages(messages);
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? flows : flows.slice(0, FIRST_FLOWS);
  return (
    <section>
      <h3>{t("flows", { count: flows.length })}</h3>
      {flows.length === 0 && <p className={styles.faint}>{t("noFlows")}</p>}
      <ul className={styles.flows}>
        {shown.map((name) => (
          <li key={name}>
            <a href={href(pathTo("/flows/:name", { name }))}>
              <UserText text={name} />
            </a>
          </li>
        ))}
      </ul>
      {shown.length < flows.length && (
        <Button onClick={() => setWhole(true)}>{t("allFlows", { count: flows.length })}</Button>
      )}
      {isWhole && flows.length === MAX_LISTED_FLOWS && <p className={styles.faint}>{t("moreFlows")}</p>}
    </section>
  );
}

export function StopReason({ reason }: { reason: string }) {
  const t = useMessages(messages);
  const known = STOP_REASONS.find((each) => each === reason);
  return known ? t(`stop.${known}`) : reason;
}

function LastRun({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  const id = worker.last_run_id;
  if (!id) return null;
  return (
    <div>
      <h4 className={styles.label}>{t("lastRun")}</h4>
      <p className={styles.lastRun}>
        <a href={href(pathTo("/runs/:id", { id }))}>
          <code>{id.slice(0, 8)}</code>
        </a>
        {worker.last_run_status ? <StatusBadge status={worker.last_run_status} /> : t("handedBack")}
        <span className={styles.faint}>
          {t("onWorker")} <Duration from={worker.last_run_started_at} to={worker.last_run_finished_at} />
          {" · "}
          <Ago at={worker.last_run_finished_at} />
        </span>
      </p>
    </div>
  );
}
