/** The result of a question. */

import { Ban, CircleCheck, CircleX, Clock, PencilLine, RotateCcw, Undo2 } from "lucide-react";
import { api } from "../../api/client";
import { useAct } from "../../api/queries";
import { href, navigate } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button, joined } from "../../ui/controls";
import { toneClass } from "../../ui/status";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { AnswerView } from "./AnswerView";
import { Changes } from "./Changes";
import { messages } from "./messages";
import styles from "./Wait.module.css";
import { reasonKey } from "./WaitHistory";
import { nameOf, type Wait } from "./wait";

type End = "answered" | "approved" | "edited" | "rejected" | "expired" | "cancelled" | "withdrawn";

const LOOKS = {
  answered: { icon: CircleCheck, tone: "COMPLETED" },
  approved: { icon: CircleCheck, tone: "COMPLETED" },
  edited: { icon: PencilLine, tone: "COMPLETED" },
  rejected: { icon: CircleX, tone: "FAILED" },
  expired: { icon: Clock, tone: "CANCELLING" },
  cancelled: { icon: Ban, tone: "CANCELLED" },
  withdrawn: { icon: Undo2, tone: "CANCELLED" },
} as const;

export function Outcome({ wait }: { wait: Wait }) {
  const t = useMessages(messages);
  const end = (wait.decision ?? wait.state) as End;
  const { icon: Icon, tone } = LOOKS[end];
  const isByPerson = wait.state === "answered" || wait.state === "withdrawn";
  const who = isByPerson ? (nameOf(wait.decided_by) ?? t("somebody")) : null;
  const isExpired = wait.state === "expired" && !("payload" in wait) && wait.on_timeout === "fail";
  const isUnanswered = wait.state === "withdrawn" || isExpired;
  const reason = wait.state === "cancelled" ? reasonKey(wait.note) : undefined;
  return (
    <section className={joined(styles.outcome, toneClass(tone))}>
      <p className={styles.end}>
        <Icon size={17} aria-hidden />
        <strong>{t(`end.${end}`)}</strong>
        {who && <span>{t("by", { who })}</span>}
        <Ago at={wait.decided_at} />
      </p>
      {wait.note && (
        <blockquote className={styles.note}>
          {reason ? t(`why.${reason}`) : <UserText text={wait.note} />}
        </blockquote>
      )}
      <Given wait={wait} />
      {isUnanswered && <AskAgain runId={wait.run_id} />}
    </section>
  );
}

function Given({ wait }: { wait: Wait }) {
  const t = useMessages(messages);
  if (wait.decision === "edited") return <Changes before={wait.proposal} after={wait.payload} />;
  const value = "payload" in wait ? wait.payload : wait.proposal;
  if (!("payload" in wait) && !("proposal" in wait)) return null;
  const title =
    wait.proposal_digest !== null
      ? t("proposal")
      : wait.state === "expired"
        ? t("theDefault")
        : t("theAnswer");
  return (
    <div className={styles.given}>
      <h3>{title}</h3>
      <AnswerView value={value} />
    </div>
  );
}

/** Asks the question again: with a new id and the same timeout. */
function AskAgain({ runId }: { runId: string }) {
  const t = useMessages(messages);
  const retry = useAct(() => api.POST("/runs/{run_id}/retry", { params: { path: { run_id: runId } } }), {
    refresh: [["waits"], ["runs"]],
    onDone: () => navigate(href("/inbox", { q: runId })),
  });
  return (
    <div className={styles.again}>
      <Button onClick={() => retry.mutate()} disabled={retry.isPending}>
        <RotateCcw size={14} aria-hidden />
        {t("askAgain")}
      </Button>
      <span>{t("askAgainHint")}</span>
    </div>
  );
}
