/** One request: what is wanted, planned and reported, its steps, its log, and the question it waits on. */
import { FileText, Trash2, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { Markdown } from "../../agentRequests/Markdown";
import { messages as common } from "../../agentRequests/messages";
import {
  ActionButton,
  OpenPr,
  Priority,
  RequestStatus,
  requestTone,
  useRequestWords,
} from "../../agentRequests/RequestStatus";
import styles from "../../agentRequests/Requests.module.css";
import { isDeletable, momentOf, PHASES, reasonOf, requestPath } from "../../agentRequests/request";
import {
  type AgentRequest,
  deleteRequest,
  type RequestDetail,
  readRequest,
} from "../../agentRequests/requestApi";
import { useMay } from "../../api/access";
import { reasonText } from "../../api/agentCodes";
import { useRead } from "../../api/queries";
import { href, navigate, pathTo, useQueryState } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { messages as dialogTexts } from "../../triggers/messages";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { ButtonLink, IconButton, joined, Segments } from "../../ui/controls";
import { Fact, FactList } from "../../ui/FactList";
import { ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { LoadingPage, NotFoundPage } from "../../ui/pageStates";
import { Labels } from "../../ui/Tags";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { Panel } from "../run/Panel";
import { Folded } from "./Folded";
import { messages } from "./messages";
import { Question } from "./Question";
import local from "./Request.module.css";
import { RunParts } from "./RunParts";

const EVERY_MS = 3_000;

export default function Screen({ params }: ScreenProps) {
  const id = params.id ?? "";
  return <RequestScreen key={id} id={id} />;
}

function RequestScreen({ id }: { id: string }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const { data, error, refetch } = useRead(["requests", "one", id], (signal) => readRequest(id, signal), {
    every: EVERY_MS,
  });
  if (error?.status === 404)
    return (
      <NotFoundPage
        title={t("title")}
        heading={t("notFound")}
        list={{ path: "/requests", label: c("allRequests") }}
      />
    );
  if (!data) return <LoadingPage title={id} problem={error} onRetry={refetch} />;
  const { request } = data;
  return (
    <Page
      title={request.title}
      note={<RequestStatus status={request.status} />}
      actions={<Actions request={request} />}
    >
      <div className={styles.parts}>
        {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
        {request.status === "needs_input" && <Question request={request} />}
        {request.problems.map((problem) => (
          <Pinned key={problem} tone="queued" label={t("fileProblem")} text={problem} />
        ))}
        {request.status === "failed" && request.failure_reason && (
          <Pinned tone="failed" label={t("failure")} text={request.failure_reason} />
        )}
        {request.status === "queued" && (
          <p className={styles.soft}>{request.enqueued_at ? c("inQueue") : t("startsOnRun")}</p>
        )}
        <RequestFacts request={request} />
        {request.run_id && <Phases request={request} />}
        <RunParts request={request}>
          <Sections detail={data} />
        </RunParts>
      </div>
    </Page>
  );
}

function Actions({ request }: { request: AgentRequest }) {
  const t = useMessages(messages);
  const [isDeleting, setDeleting] = useState(false);
  const mayDelete = useMay("DELETE /api/v1/requests/{request_id}") && isDeletable(request);
  const mayEdit = useMay("PATCH /api/v1/requests/{request_id}");
  const isDone = request.status === "done";
  return (
    <>
      {mayEdit && <ButtonLink href={href(`${requestPath(request.id)}/edit`)}>{t("edit")}</ButtonLink>}
      <ActionButton request={request} primary={!isDone} />
      {isDone && <OpenPr url={request.pr_url} primary />}
      {mayDelete && (
        <IconButton
          label={t("deleteIt")}
          icon={<Trash2 size={15} />}
          kind="normal"
          onClick={() => setDeleting(true)}
        />
      )}
      {isDeleting && <DeleteDialog request={request} onClose={() => setDeleting(false)} />}
    </>
  );
}

function DeleteDialog({ request, onClose }: { request: AgentRequest; onClose: () => void }) {
  const t = useMessages(messages);
  const dialog = useMessages(dialogTexts);
  return (
    <ConfirmDialog
      title={t("deleteTitle", { title: request.title })}
      text={t("deleteText")}
      confirm={dialog("delete")}
      back={dialog("keep")}
      refresh={[["requests", "board"]]}
      act={() => deleteRequest(request.id)}
      onDone={() => {
        showToast({ tone: "good", title: dialog("isDeleted", { name: request.title }) });
        navigate(href("/requests"));
      }}
      onClose={onClose}
    />
  );
}

/** What needs the attention of a person; a code before the text is shown small. */
function Pinned({ tone, label, text }: { tone: string; label: string; text: string }) {
  const { code, text: reason } = reasonOf(text);
  const known = reasonText(code);
  return (
    <section className={joined(local.pinned, requestTone(tone))} aria-label={label}>
      <TriangleAlert size={17} aria-hidden />
      <div className={local.reason}>
        {known && (
          <p>
            <strong>{known.title}</strong>
          </p>
        )}
        <p>
          <UserText text={reason} />
        </p>
        {(known?.cure || code) && (
          <p>
            {known?.cure} {code && <code>{code}</code>}
          </p>
        )}
      </div>
    </section>
  );
}

function RequestFacts({ request }: { request: AgentRequest }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  return (
    <FactList>
      <Fact name={c("priority")}>
        <Priority priority={request.priority} />
      </Fact>
      <Fact name={t("branch")}>
        <code>
          <UserText text={request.branch} />
        </code>
        <span className={styles.soft}>
          {t("from")}{" "}
          <code>
            <UserText text={request.base} />
          </code>
        </span>
      </Fact>
      {request.tags.length > 0 && (
        <Fact name={c("tags")}>
          <Labels labels={request.tags} to={(label) => href("/requests", { q: label })} />
        </Fact>
      )}
      {request.pyoco_run_id && (
        <Fact name={t("run")}>
          <a href={href(pathTo("/runs/:id", { id: request.pyoco_run_id }))}>{t("showRun")}</a>
        </Fact>
      )}
      {request.last_commit && (
        <Fact name={t("lastCommit")}>
          <code>{request.last_commit.slice(0, 12)}</code>
        </Fact>
      )}
      <Fact name={t("file")}>
        <code>
          <UserText text={request.paths.request_file} />
        </code>
      </Fact>
      <Fact name={t("created")}>
        <Ago at={momentOf(request.created_at)} />
      </Fact>
      <Fact name={t("updated")}>
        <Ago at={momentOf(request.updated_at)} />
      </Fact>
    </FactList>
  );
}

/** Where the run is, of all phases that it passes. */
function Phases({ request }: { request: AgentRequest }) {
  const t = useMessages(messages);
  const words = useRequestWords();
  const isDone = request.status === "done";
  const at = isDone ? PHASES.length : (PHASES as readonly (string | null)[]).indexOf(request.phase);
  return (
    <ol className={joined(local.phases, requestTone(request.status))} aria-label={t("phases")}>
      {PHASES.map((phase, index) => (
        <li
          key={phase}
          className={index < at ? local.passed : undefined}
          aria-current={index === at ? "step" : undefined}
        >
          {words.phase(phase)}
        </li>
      ))}
    </ol>
  );
}

const SECTIONS = ["want", "plan", "report"] as const;
type Section = (typeof SECTIONS)[number];

function Sections({ detail }: { detail: RequestDetail }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const { sections, raw_md } = detail.content;
  const isBroken = sections.want === null;
  const section = SECTIONS.find((each) => each === query.get("show")) ?? firstSection(detail);
  const text = sections[section] ?? "";
  return (
    <Panel
      title={t("document")}
      icon={FileText}
      actions={
        !isBroken && (
          <Segments
            label={t("document")}
            value={section}
            options={SECTIONS.map((value) => ({ value, label: t(`section.${value}`) }))}
            onChange={(value) => change({ show: value }, { replace: true })}
          />
        )
      }
    >
      <Folded key={section} open={t("showWhole")} close={t("showLess")}>
        {isBroken ? (
          <>
            <p role="alert">{t("brokenFile")}</p>
            <pre className={local.raw}>
              <UserText text={raw_md} />
            </pre>
          </>
        ) : text.trim() ? (
          <Markdown text={text} />
        ) : (
          <p className={styles.soft}>{t(`nothing.${section}`)}</p>
        )}
      </Folded>
    </Panel>
  );
}

/** What is read first: the newest of the three that there is. */
function firstSection({ content: { sections }, request }: RequestDetail): Section {
  if (request.status === "done" && sections.report?.trim()) return "report";
  return request.status !== "queued" && sections.plan?.trim() ? "plan" : "want";
}
