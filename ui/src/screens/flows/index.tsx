/** The flows that workers have or that have runs, with how their runs of the last day ended. */
import { Workflow } from "lucide-react";
import { useRead } from "../../api/queries";
import { useWorkerSetup } from "../../api/workerSetup";
import { href, pathTo, useQueryState } from "../../app/router";
import { Sparkline, SuccessBar } from "../../flows/Bars";
import { type FlowItem, readFlows } from "../../flows/flowApi";
import { useMessages } from "../../i18n/messages";
import { duration } from "../../i18n/time";
import { workerCommand } from "../../lib/commands";
import { CommandLine } from "../../ui/CommandLine";
import { Button, ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { FilterRow } from "../../ui/filters";
import { Page } from "../../ui/Page";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { UserText } from "../../ui/UserText";
import styles from "./FlowList.module.css";
import { messages } from "./messages";

const EVERY_MS = 5_000;

export default function FlowsScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const [search, cursor] = [query.get("q") ?? "", query.get("cursor")];
  const { data, error, isPending, refetch } = useRead(
    ["flows", search, cursor],
    (signal) => readFlows({ ...(search && { search }), ...(cursor && { cursor }) }, signal),
    { keep: true, every: EVERY_MS },
  );
  const flows = data?.flows ?? [];
  return (
    <Page title={t("title")}>
      {(search !== "" || flows.length > 0) && (
        <FilterRow>
          <SearchField
            label={t("search")}
            placeholder={t("searchPlaceholder")}
            value={search}
            live
            onSearch={(text) => {
              change({ q: text || null, cursor: null }, { replace: true });
              return text;
            }}
          />
        </FilterRow>
      )}
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      {flows.length > 0 && <FlowTable flows={flows} />}
      {data && flows.length === 0 && !error && <Nothing filtered={search !== "" || cursor !== null} />}
      {(cursor !== null || data?.next_cursor) && (
        <nav className={styles.pages} aria-label={t("pages")}>
          <Button disabled={cursor === null} onClick={() => change({ cursor: null })}>
            {t("first")}
          </Button>
          <Button disabled={!data?.next_cursor} onClick={() => change({ cursor: data?.next_cursor ?? null })}>
            {t("further")}
          </Button>
        </nav>
      )}
    </Page>
  );
}

function FlowTable({ flows }: { flows: readonly FlowItem[] }) {
  const t = useMessages(messages);
  const list = useRowKeys<HTMLUListElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <ul ref={list} className={styles.list} aria-label={t("title")}>
      <li className={styles.head} aria-hidden>
        <span>{t("flow")}</span>
        <span>{t("workers")}</span>
        <span>{t("success")}</span>
        <span>{t("ended")}</span>
        <span>{t("took")}</span>
      </li>
      {flows.map((flow) => (
        <FlowRow key={flow.name} flow={flow} />
      ))}
    </ul>
  );
}

/** A docstring goes on with details; the page of the flow shows them. */
const firstParagraph = (text: string) => text.split(/\n\s*\n/, 1)[0] ?? text;

function FlowRow({ flow }: { flow: FlowItem }) {
  const t = useMessages(messages);
  const statistics = flow.statistics?.["24h"];
  const { p50, p95 } = statistics?.duration_ms ?? { p50: null, p95: null };
  return (
    <li className={styles.row} data-flow={flow.name}>
      <div className={styles.name}>
        <a href={href(pathTo("/flows/:name", { name: flow.name }))}>
          <UserText text={flow.name} />
        </a>
        {flow.description && (
          <p>
            <UserText text={firstParagraph(flow.description)} />
          </p>
        )}
        {flow.versions_differ && <p className={styles.warning}>{t("versionsDiffer")}</p>}
        {flow.problem && (
          <p className={styles.warning}>
            <UserText text={flow.problem} />
          </p>
        )}
      </div>
      <span data-head={t("workers")} className={flow.workers === 0 ? styles.warning : undefined}>
        {flow.workers === 0 ? t("noWorker") : t("workerCount", { count: flow.workers })}
      </span>
      <span data-head={t("success")}>
        <SuccessBar statistics={statistics} />
      </span>
      <span data-head={t("ended")}>
        {statistics && <Sparkline statistics={statistics} label={t("endedIn", { flow: flow.name })} />}
      </span>
      <span data-head={t("took")} className={styles.took}>
        {p50 !== null && (
          <>
            {duration(p50 / 1000)} <small>{t("p95", { time: duration((p95 ?? p50) / 1000) })}</small>
          </>
        )}
      </span>
    </li>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  const { setup } = useWorkerSetup();
  if (filtered)
    return (
      <NothingMatches
        title={t("nothingTitle")}
        clear={t("nothingClear")}
        onClear={() => change({ q: null, cursor: null })}
      />
    );
  return (
    <EmptyState
      icon={Workflow}
      title={t("emptyTitle")}
      actions={<ButtonLink href={href("/workers")}>{t("showWorkers")}</ButtonLink>}
    >
      <p>{t("emptyText")}</p>
      <CommandLine text={workerCommand(setup?.command)} />
    </EmptyState>
  );
}
