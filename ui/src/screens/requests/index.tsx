/** The board: every request by status, then priority, then the newest. */
import { Bot, Plus, Stethoscope } from "lucide-react";
import { useState } from "react";
import { messages as common } from "../../agentRequests/messages";
import {
  ActionButton,
  OpenPr,
  Priority,
  RequestStatus,
  useRequestWords,
} from "../../agentRequests/RequestStatus";
import styles from "../../agentRequests/Requests.module.css";
import {
  type Group,
  groups,
  momentOf,
  questionOnly,
  reasonOf,
  requestPath,
} from "../../agentRequests/request";
import { type AgentRequest, readRequests } from "../../agentRequests/requestApi";
import { useMay } from "../../api/access";
import { reasonText } from "../../api/agentCodes";
import { useRead } from "../../api/queries";
import { href, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { folded } from "../../lib/folding";
import { CommandLine } from "../../ui/CommandLine";
import { Button, ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { FilterRow, searchText, searchTyped } from "../../ui/filters";
import { Page } from "../../ui/Page";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { Labels } from "../../ui/Tags";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";

const EVERY_MS = 3_000;
/** Of a group, until somebody asks for all: the done ones only grow. */
const FIRST = 25;
const CREATE = "pyoco-client requests create 'Fix the login timeout' --want 'Sessions end after ...'";

export default function BoardScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const { data, error, isPending, refetch } = useRead(["requests", "board"], readRequests, {
    every: EVERY_MS,
  });
  const search = query.get("q") ?? "";
  const all = data?.items ?? [];
  const items = all.filter((request) => matches(request, folded(search)));
  const list = useRowKeys<HTMLDivElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <Page
      title={t("title")}
      note={all.length > 0 && t("count", { count: all.length })}
      actions={
        <>
          <ButtonLink href={href("/doctor")}>
            <Stethoscope size={14} aria-hidden />
            {t("doctor")}
          </ButtonLink>
          <Create />
        </>
      }
    >
      {all.length > 0 && (
        <FilterRow>
          <SearchField
            label={t("search")}
            placeholder={t("searchPlaceholder")}
            value={search}
            onSearch={searchTyped(searchText, change)}
          />
        </FilterRow>
      )}
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      <div ref={list} className={styles.board}>
        {groups(items).map((group) => (
          <BoardGroup key={group.status} group={group} />
        ))}
      </div>
      {data && all.length === 0 && (
        <EmptyState icon={Bot} title={t("emptyTitle")} actions={<Create />}>
          <p>{t("emptyText")}</p>
          <CommandLine text={CREATE} />
        </EmptyState>
      )}
      {all.length > 0 && items.length === 0 && (
        <NothingMatches
          title={t("nothingTitle")}
          clear={t("nothingClear")}
          onClear={() => change({ q: null })}
        />
      )}
    </Page>
  );
}

const matches = ({ id, title, tags, branch }: AgentRequest, search: string): boolean =>
  !search || folded([id, title, branch, ...tags].join("\n")).includes(search);

function Create() {
  const c = useMessages(common);
  if (!useMay("POST /api/v1/requests")) return null;
  return (
    <ButtonLink kind="primary" href={href("/new-request")}>
      <Plus size={14} aria-hidden />
      {c("create")}
    </ButtonLink>
  );
}

function BoardGroup({ group: { status, items } }: { group: Group }) {
  const t = useMessages(messages);
  const words = useRequestWords();
  const [whole, setWhole] = useState(false);
  const shown = whole ? items : items.slice(0, FIRST);
  return (
    <section className={styles.group} aria-label={words.status(status)} data-group={status}>
      <h2>
        <RequestStatus status={status} />
        <span className={styles.soft}>{items.length}</span>
      </h2>
      <ul>
        {shown.map((request) => (
          <BoardRow key={request.id} request={request} />
        ))}
      </ul>
      {shown.length < items.length && (
        <Button kind="plain" className={styles.more} onClick={() => setWhole(true)}>
          {t("showAll", { count: items.length })}
        </Button>
      )}
    </section>
  );
}

/** In one line: the question, or what failed. */
function rowReason({ blocked_reason, failure_reason }: AgentRequest): string | null {
  if (blocked_reason) return questionOnly(blocked_reason);
  if (!failure_reason) return null;
  const { code, text } = reasonOf(failure_reason);
  const known = reasonText(code);
  return known ? `${known.title} ${text}` : failure_reason;
}

function BoardRow({ request }: { request: AgentRequest }) {
  const c = useMessages(common);
  const words = useRequestWords();
  const reason = rowReason(request);
  return (
    <li className={styles.card} data-request={request.id}>
      <Priority priority={request.priority} />
      <div className={styles.what}>
        <p>
          <a href={href(requestPath(request.id))} data-row>
            <UserText text={request.title} />
          </a>{" "}
          <Labels labels={request.tags} to={(label) => href("/requests", { q: label })} />
        </p>
        {reason && (
          <p className={styles.reason}>
            <UserText text={reason} />
          </p>
        )}
        <p className={styles.soft}>
          <span className="mono">
            <UserText text={request.id} />
          </span>
          {request.status === "running" && request.phase && <span>{words.phase(request.phase)}</span>}
          {request.status === "queued" && request.enqueued_at && <span>{c("inQueue")}</span>}
          <Ago at={momentOf(request.updated_at)} />
        </p>
      </div>
      <div className={styles.buttons}>
        {request.status === "done" && <OpenPr url={request.pr_url} />}
        {request.status === "needs_input" && (
          <ButtonLink href={href(requestPath(request.id))}>{c("answer")}</ButtonLink>
        )}
        <ActionButton request={request} />
      </div>
    </li>
  );
}
