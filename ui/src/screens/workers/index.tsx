/** The workers screen. */
import { Server, ServerOff } from "lucide-react";
import type { ReactNode } from "react";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { FilterRow } from "../../ui/filters";
import { Page } from "../../ui/Page";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { AddWorker, AddWorkerButton } from "./AddWorker";
import { messages } from "./messages";
import { MAX_WORKERS, useRunningRuns, useWorkers } from "./useWorkers";
import { WorkerRow } from "./WorkerRow";
import styles from "./Workers.module.css";
import { type Summary, shownWorkers, summaryOf, type Worker } from "./workers";

export default function WorkersScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const { data, error, isPending, refetch } = useWorkers();
  const workers = data ?? [];
  const summary = summaryOf(workers);
  const shown = shownWorkers(workers, {
    text: query.get("q") ?? "",
    stopped: query.has("stopped"),
    hidden: query.has("hidden"),
  });
  return (
    <Page
      title={t("title")}
      note={
        summary.online > 0 &&
        `${t("online", { count: summary.online })} · ${t("slotsBusy", { busy: summary.busy, slots: summary.slots })}`
      }
      actions={shown.length > 0 && <AddWorkerButton />}
    >
      {workers.length > 0 && (
        <FilterRow>
          <SearchField
            live
            label={t("search")}
            placeholder={t("searchPlaceholder")}
            value={query.get("q") ?? ""}
            onSearch={(text) => {
              change({ q: text }, { replace: true });
              return text;
            }}
          />
          <Toggles summary={summary} />
        </FilterRow>
      )}
      {error && (
        <div className={styles.problem}>
          <ProblemBox problem={error} onRetry={() => void refetch()} />
        </div>
      )}
      {isPending ? (
        <Loading />
      ) : shown.length > 0 ? (
        <WorkerList workers={shown} />
      ) : (
        !error && <Nobody known={workers.length > 0} searching={query.has("q")} />
      )}
      {workers.length === MAX_WORKERS && (
        <p className={styles.tooMany}>{t("tooMany", { count: MAX_WORKERS })}</p>
      )}
    </Page>
  );
}

/** Stopped and hidden workers are shown on demand. */
function Toggles({ summary }: { summary: Summary }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const toggle = (name: "stopped" | "hidden", label: string, count: number): ReactNode =>
    (count > 0 || query.has(name)) && (
      <button
        key={name}
        type="button"
        className={styles.toggle}
        aria-pressed={query.has(name)}
        onClick={() => change({ [name]: query.has(name) ? null : "1" })}
      >
        {label}
        <span className={styles.count}>{count}</span>
      </button>
    );
  return (
    <div className={styles.toggles}>
      {toggle("stopped", t("showStopped"), summary.stopped)}
      {toggle("hidden", t("showHidden"), summary.hidden)}
    </div>
  );
}

function WorkerList({ workers }: { workers: readonly Worker[] }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const list = useRowKeys<HTMLUListElement>({ next: t("nextWorker"), previous: t("previousWorker") });
  const runs = useRunningRuns(workers.some((each) => each.current_run_ids.length > 0));
  const opened = query.get("worker");
  return (
    <ul ref={list} className={styles.list} aria-label={t("list")}>
      {workers.map((worker) => (
        <WorkerRow
          key={worker.worker_id}
          worker={worker}
          runs={runs}
          open={worker.worker_id === opened}
          onToggle={(open) => change({ worker: open ? worker.worker_id : null }, { replace: true })}
        />
      ))}
    </ul>
  );
}

function Nobody({ known, searching }: { known: boolean; searching: boolean }) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  if (searching)
    return (
      <NothingMatches
        title={t("nothingTitle")}
        clear={t("nothingClear")}
        onClear={() => change({ q: null })}
      />
    );
  return (
    <EmptyState icon={known ? ServerOff : Server} title={known ? t("noneOnlineTitle") : t("emptyTitle")}>
      <p>{known ? t("noneOnlineText") : t("emptyText")}</p>
      <AddWorker />
    </EmptyState>
  );
}
