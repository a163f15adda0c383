/** One question: its text, deadline, and form or result. */

import { Activity, CircleCheck, CircleX, TriangleAlert, Users } from "lucide-react";
import type { Receipt, Respond } from "pyoco-server-react";
import { type ReactNode, useEffect, useState } from "react";
import { useMay } from "../../api/access";
import { api } from "../../api/client";
import { readExactJson } from "../../api/exactBodies";
import { queryClient, useRead } from "../../api/queries";
import { href, pathTo } from "../../app/router";
import { listText, useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { Arming } from "../../ui/arming";
import { joined } from "../../ui/controls";
import { Loading, ProblemBox } from "../../ui/feedback";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { AnswerForm } from "./AnswerForm";
import { AnswerView } from "./AnswerView";
import { Deadline } from "./Deadline";
import { forgetDraft } from "./draft";
import { messages } from "./messages";
import { Outcome } from "./Outcome";
import { ProposalForm } from "./ProposalForm";
import type { Refusal } from "./useAnswering";
import styles from "./Wait.module.css";
import { WaitActions } from "./WaitActions";
import { WaitHistory } from "./WaitHistory";
import { nameOf, type Wait } from "./wait";

interface WaitPanelProps {
  id: string;
  respond: Respond;
  /** Whether it is open, as far as known: when it is closed, it is read again. */
  isOpen: boolean | null;
  onAnswered?: () => void;
  /** Next to the question. */
  actions?: ReactNode;
  /** Below the result of a closed question. */
  next?: ReactNode;
}

export function WaitPanel({ id, respond, isOpen, onAnswered, actions, next }: WaitPanelProps) {
  const t = useMessages(messages);
  const key = ["waits", "one", id];
  const read = useRead(key, (signal) => {
    const asked = { params: { path: { wait_id: id } }, signal, parseAs: "text" } as const;
    return readExactJson<Wait>(api.GET("/waits/{wait_id}", asked));
  });
  const mayAnswer = useMay("POST /waits/{wait_id}/respond");
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const wait = read.data;
  const isBehind = wait?.state === "open" && isOpen === false;
  const { refetch } = read;
  useEffect(() => {
    if (isBehind) void refetch();
  }, [isBehind, refetch]);
  const isClosed = wait !== undefined && wait.state !== "open";
  useEffect(() => {
    if (isClosed) forgetDraft(id);
  }, [isClosed, id]);

  if (!wait) return read.error ? <ProblemBox problem={read.error} onRetry={() => refetch()} /> : <Loading />;
  const answered = (receipt: Receipt) => {
    showToast({
      tone: "good",
      title:
        receipt.state === "open"
          ? t("votedToast", { count: receipt.approvals ?? 0, required: receipt.required ?? 1 })
          : t("answeredToast"),
      detail: wait.message,
      link: { href: href(pathTo("/runs/:id", { id: receipt.run_id })), label: t("showRun") },
    });
    // Only after the form is removed: it would be shown empty for a moment.
    void queryClient.invalidateQueries({ queryKey: ["waits"] }).then(() => forgetDraft(id));
    onAnswered?.();
  };
  const refused = (why: Refusal) => {
    setRefusal(why);
    void queryClient.invalidateQueries({ queryKey: ["waits"] });
  };
  const Form = wait.proposal_digest === null ? AnswerForm : ProposalForm;
  const isForm = wait.state === "open" && mayAnswer;
  return (
    <article className={styles.wait} aria-label={visible(wait.message)}>
      <Question
        wait={wait}
        actions={
          <div className={styles.actions}>
            {wait.state === "open" && <WaitActions wait={wait} />}
            {actions}
          </div>
        }
      />
      {refusal && <Refused refusal={refusal} wait={wait} />}
      {wait.state === "open" && !mayAnswer && (
        <p className={styles.notice} role="note">
          <TriangleAlert size={16} aria-hidden />
          {t("needsScope")}
        </p>
      )}
      {isForm ? (
        <>
          {/* Another proposal resets the form. */}
          <Arming key={wait.proposal_digest}>
            <Form wait={wait} respond={respond} onAnswered={answered} onRefused={refused} />
          </Arming>
          <Otherwise wait={wait} />
        </>
      ) : (
        wait.state !== "open" && (
          <Arming>
            <Outcome wait={wait} />
            {next}
          </Arming>
        )
      )}
      <Votes votes={wait.votes} />
      <WaitHistory events={wait.events} />
    </article>
  );
}

function Question({ wait, actions }: { wait: Wait; actions?: ReactNode }) {
  const t = useMessages(messages);
  const place = wait.name === "human" ? wait.task : `${wait.task} · ${wait.name}`;
  return (
    <header className={styles.question}>
      <div className={styles.head}>
        {/* The message is a text of any length: as a heading it would outrank the rest of the page. */}
        <h2 className="hidden-visually">{t("question")}</h2>
        <Message text={wait.message} />
        {actions}
      </div>
      <p className={styles.facts}>
        <a className={styles.run} href={href(pathTo("/runs/:id", { id: wait.run_id }))}>
          <Activity size={13} aria-hidden />
          <UserText text={wait.flow_name} />
        </a>
        <span>
          <UserText text={place} />
        </span>
        <span>
          {t("asked")} <Ago at={wait.created_at} />
        </span>
        {wait.assignees.length > 0 && (
          <span className={styles.who}>
            <Users size={13} aria-hidden />
            {t("for", { who: listText(wait.assignees) })}
          </span>
        )}
        {wait.required > 1 && (
          <span>{t("approvals", { count: wait.approvals, required: wait.required })}</span>
        )}
        {!wait.self_approval && <span>{t("noSelfApproval")}</span>}
        {wait.arming > 1 && <span>{t("askedAgain", { count: wait.arming })}</span>}
        {wait.state === "open" && <Deadline at={wait.deadline_at} />}
      </p>
    </header>
  );
}

/** So that the form below it is in view; the rest of a long message is shown on demand. */
const SHORT_LINES = 8;
const SHORT_CHARS = 700;

function Message({ text }: { text: string }) {
  const t = useMessages(messages);
  const [whole, setWhole] = useState(false);
  const isLong = text.length > SHORT_CHARS || text.split("\n").length > SHORT_LINES;
  return (
    <div className={styles.messageBox}>
      <p className={joined(styles.message, isLong && !whole && styles.clipped)}>
        <UserText text={text} />
      </p>
      {isLong && (
        <button type="button" className={styles.more} aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {t(whole ? "shortMessage" : "wholeMessage")}
        </button>
      )}
    </div>
  );
}

/** Who has voted, and how. */
function Votes({ votes }: { votes: Wait["votes"] }) {
  const t = useMessages(messages);
  if (votes.length === 0) return null;
  return (
    <section className={styles.history} aria-label={t("votes")}>
      <h3>{t("votes")}</h3>
      <ol>
        {votes.map((vote) => {
          const isRejection = vote.decision === "rejected" || vote.payload === false;
          const Icon = isRejection ? CircleX : CircleCheck;
          return (
            <li key={`${vote.at} ${vote.decision_id}`}>
              <Icon size={14} aria-hidden />
              <div>
                <p>
                  {t(isRejection ? "decision.rejected" : "decision.approved")}{" "}
                  {t("by", { who: nameOf(vote.by) ?? t("somebody") })} <Ago at={vote.at} />
                </p>
                {vote.note && (
                  <p className={styles.why}>
                    <UserText text={vote.note} />
                  </p>
                )}
              </div>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

/** Explains why an answer was not accepted. */
function Refused({ refusal, wait }: { refusal: Refusal; wait: Wait }) {
  const t = useMessages(messages);
  const who = nameOf(wait.decided_by ?? null) ?? t("somebody");
  return (
    <div className={styles.notice} role="alert">
      <TriangleAlert size={16} aria-hidden />
      <p>
        <strong>{t("notCounted")}</strong>{" "}
        {refusal === "conflict" && wait.state === "answered" ? (
          <>
            {t("firstWas", { who })} (<Ago at={wait.decided_at} />)
          </>
        ) : refusal === "conflict" && wait.state === "open" ? (
          t("refused.voted")
        ) : refusal === "conflict" ? (
          t("refused.over")
        ) : (
          t(`refused.${refusal}`)
        )}
      </p>
    </div>
  );
}

/** What happens if nobody answers. */
function Otherwise({ wait }: { wait: Wait }) {
  const t = useMessages(messages);
  if (!("default" in wait))
    return (
      <p className={styles.otherwise}>{t(wait.on_timeout === "fail" ? "elseFails" : "elseContinues")}</p>
    );
  return (
    <div className={styles.otherwise}>
      {t("elseDefault")}
      <AnswerView value={wait.default} />
    </div>
  );
}
