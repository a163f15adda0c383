/** One flow: its graph, a form to run it, how its runs went, its workers, runs and schedules. */

import { useState } from "react";
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { href, pathTo } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { Sparkline, SuccessBar } from "../../flows/Bars";
import { type Flow, type FlowWindow, readFlow, WINDOWS } from "../../flows/flowApi";
import { messages as common } from "../../flows/messages";
import { useMessages } from "../../i18n/messages";
import { duration } from "../../i18n/time";
import { readSchedules } from "../../schedules/scheduleApi";
import { refOf, scheduleHref } from "../../schedules/scheduleRef";
import { ButtonLink, Segments } from "../../ui/controls";
import { Card, Page } from "../../ui/Page";
import { LoadingPage, NotFoundPage } from "../../ui/pageStates";
import { StatusBadge } from "../../ui/status";
import { Ago, Duration } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { PlanCard } from "../run/flow/PlanCard";
import styles from "./Flow.module.css";
import { messages } from "./messages";
import { RunForm } from "./RunForm";

const EVERY_MS = 5_000;
const LAST_RUNS = 10;

export default function FlowScreen({ params }: ScreenProps) {
  const t = useMessages(messages);
  const name = params.name ?? "";
  const { data, error, refetch } = useRead(["flows", "one", name], (signal) => readFlow(name, signal), {
    every: EVERY_MS,
  });
  if (error?.status === 404 && !data)
    return (
      <NotFoundPage title={name} heading={t("notFound")} list={{ path: "/flows", label: t("allFlows") }}>
        <UserText text={error.detail} />
      </NotFoundPage>
    );
  if (!data) return <LoadingPage title={name} problem={error} onRetry={refetch} />;
  return (
    <Page title={name} actions={<ButtonLink href={href("/flows")}>{t("allFlows")}</ButtonLink>}>
      <div className={styles.flow}>
        {data.description && (
          <p className={styles.description}>
            <UserText text={data.description} />
          </p>
        )}
        <Notices flow={data} />
        <div className={styles.columns}>
          <div className={styles.column}>
            <GraphOf flow={data} />
            <Statistics flow={data} />
            <Runs name={name} />
          </div>
          <div className={styles.column}>
            <Card title={t("run")}>
              {/* Another schema is another form. */}
              <RunForm key={JSON.stringify(data.parameters)} flow={data} />
            </Card>
            <Workers flow={data} />
            <Schedules name={name} />
          </div>
        </div>
      </div>
    </Page>
  );
}

function Notices({ flow }: { flow: Flow }) {
  const t = useMessages(messages);
  return (
    <>
      {flow.workers.length === 0 && (
        <p className={styles.warning} role="note">
          {t("noWorker")}
        </p>
      )}
      {flow.versions_differ && (
        <p className={styles.warning} role="note">
          {t("versionsDiffer")}
        </p>
      )}
      {flow.problem && (
        <p className={styles.warning} role="note">
          <UserText text={flow.problem} />
        </p>
      )}
    </>
  );
}

function GraphOf({ flow }: { flow: Flow }) {
  const t = useMessages(messages);
  if (flow.tasks.length === 0) return <Card title={t("tasks")}>{t("tasksUnknown")}</Card>;
  return <PlanCard tasks={flow.tasks} />;
}

function Statistics({ flow }: { flow: Flow }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [window, setWindow] = useState<FlowWindow>("24h");
  const found = flow.statistics?.[window];
  const time = (ms: number | null | undefined) => (ms == null ? "–" : duration(ms / 1000));
  return (
    <Card
      title={t("statistics")}
      actions={
        <Segments
          label={t("window")}
          value={window}
          options={WINDOWS.map((value) => ({ value, label: c(`window.${value}`) }))}
          onChange={setWindow}
        />
      }
    >
      {!found ? (
        <p className={styles.soft}>{t("noStatistics")}</p>
      ) : (
        <dl className={styles.figures} data-window={window}>
          <div>
            <dt>{t("success")}</dt>
            <dd>
              <SuccessBar statistics={found} />
            </dd>
          </div>
          <div>
            <dt>{t("ended")}</dt>
            <dd>
              <Sparkline statistics={found} label={t("ended")} />
            </dd>
          </div>
          <div>
            <dt>{t("took")}</dt>
            <dd>{t("quantiles", { p50: time(found.duration_ms.p50), p95: time(found.duration_ms.p95) })}</dd>
          </div>
          <div>
            <dt>{t("queued")}</dt>
            <dd>{t("quantiles", { p50: time(found.queue_ms.p50), p95: time(found.queue_ms.p95) })}</dd>
          </div>
          <div className={styles.statuses}>
            <dt>{t("byStatus")}</dt>
            <dd>
              {Object.entries(found.statuses).map(([status, count]) => (
                <a key={status} href={href("/runs", { flow: flow.name, status })}>
                  <StatusBadge status={status} /> {count}
                </a>
              ))}
            </dd>
          </div>
        </dl>
      )}
      <a className={styles.compared} href={href("/metrics", { flow: flow.name, period: window })}>
        {t("compared")}
      </a>
      {flow.last_failures.length > 0 && (
        <section className={styles.failures} aria-label={t("lastFailures")}>
          <h3>{t("lastFailures")}</h3>
          <ul>
            {flow.last_failures.map((failure) => (
              <li key={failure.run_id}>
                <a href={href(pathTo("/runs/:id", { id: failure.run_id }))}>
                  <UserText text={failure.error ?? failure.run_id} />
                </a>
                <Ago at={failure.ended_at} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </Card>
  );
}

function Runs({ name }: { name: string }) {
  const t = useMessages(messages);
  const { data } = useRead(
    ["runs", "of-flow", name],
    (signal) =>
      api.GET("/runs", {
        params: { query: { flow: name, limit: LAST_RUNS, sort: "submitted_at" } },
        signal,
      }),
    { every: EVERY_MS },
  );
  const runs = Array.isArray(data) ? data : (data?.items ?? []);
  return (
    <Card title={t("runs")} actions={<a href={href("/runs", { flow: name })}>{t("allRuns")}</a>}>
      {data && runs.length === 0 && <p className={styles.soft}>{t("noRuns")}</p>}
      <ul className={styles.rows}>
        {runs.map((run) => (
          <li key={run.run_id} data-run={run.run_id}>
            <span className={styles.status}>
              <StatusBadge status={run.status} />
            </span>
            <a className="mono" href={href(pathTo("/runs/:id", { id: run.run_id }))} title={run.run_id}>
              {run.run_id.slice(0, 8)}
            </a>
            <Ago at={run.submitted_at} />
            <Duration from={run.start_time} to={run.end_time} />
            {run.error && (
              <span className={styles.error}>
                <UserText text={run.error} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Workers({ flow }: { flow: Flow }) {
  const t = useMessages(messages);
  return (
    <Card title={t("workers")}>
      {flow.workers.length === 0 && <p className={styles.soft}>{t("noneHere")}</p>}
      <ul className={styles.rows}>
        {flow.workers.map((worker) => (
          <li key={worker.worker_id}>
            <a href={href("/workers", { worker: worker.worker_id })}>
              <UserText text={worker.worker_id} />
            </a>
            {worker.tags.map((tag) => (
              <code key={tag}>{tag}</code>
            ))}
            {worker.version && (
              <code className={styles.soft} title={worker.version}>
                {worker.version.slice(0, 12)}
              </code>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Schedules({ name }: { name: string }) {
  const t = useMessages(messages);
  const { data } = useRead(
    ["schedules", "of-flow", name],
    (signal) => readSchedules(new URLSearchParams({ flow: name }), signal),
    { every: EVERY_MS },
  );
  const items = data?.items ?? [];
  return (
    <Card
      title={t("schedules")}
      actions={<a href={href("/new-schedule", { flow: name })}>{t("newSchedule")}</a>}
    >
      {data && items.length === 0 && <p className={styles.soft}>{t("noSchedules")}</p>}
      <ul className={styles.rows}>
        {items.map((item) => (
          <li key={`${item.tenant_id ?? ""} ${item.schedule_id}`}>
            <a href={scheduleHref(refOf(item))}>
              <UserText text={item.schedule_id} />
            </a>
            {item.next_at != null && (
              <span className={styles.soft}>
                {t("next")} <Ago at={item.next_at} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}
