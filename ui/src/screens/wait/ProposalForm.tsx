/** A proposal: approve, edit or reject it. */

import { Check, PencilLine, X } from "lucide-react";
import { useMemo } from "react";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { schemaLike } from "../../schemaForm/fields";
import type { Json } from "../../schemaForm/json";
import { NO_PROBLEMS, problemsOf } from "../../schemaForm/validation";
import { Button, Field, Segments, TextArea } from "../../ui/controls";
import { Form } from "../../ui/Form";
import { ProblemBox } from "../../ui/feedback";
import { SEND_KEYS } from "../../ui/sendShortcut";
import { UserText } from "../../ui/UserText";
import styles from "./Answer.module.css";
import { AnswerEditor } from "./AnswerEditor";
import { AnswerView } from "./AnswerView";
import { Changes } from "./Changes";
import { useDraft } from "./draft";
import { messages } from "./messages";
import { useAnswering } from "./useAnswering";
import { type Answerable, schemaOf, type Wait } from "./wait";

const NOTE_CHARS = 10_000;
const ICONS = { approved: Check, edited: PencilLine, rejected: X };

export function ProposalForm({ wait, ...handlers }: { wait: Wait } & Answerable) {
  const t = useMessages(messages);
  const language = useLanguage();
  const draft = useDraft(wait, () => wait.proposal as Json);
  const { value, mode, decision = "approved", note = "" } = draft.now();
  const { send, sending, problem, problems } = useAnswering({
    waitId: wait.wait_id,
    ...handlers,
  });
  const schema = schemaOf(wait);
  const edited = useMemo(() => schema ?? schemaLike(wait.proposal), [schema, wait.proposal]);
  const submit = () => {
    // The digest of the proposal on the screen: a changed one is not approved by mistake.
    const answer = { decision, digest: wait.proposal_digest, note: note.trim() };
    if (decision === "edited") void send({ ...answer, value }, () => problemsOf(value, schema, language));
    else void send(answer, async () => NO_PROBLEMS);
  };
  // Several people approve one and the same proposal.
  const decisions = (["approved", "edited", "rejected"] as const).filter(
    (each) => each !== "edited" || wait.required === 1,
  );
  const Icon = ICONS[decision];
  return (
    <Form className={styles.form} refusal={problems.size > 0 ? problems : null} onSubmit={submit}>
      <section className={styles.proposal} aria-label={t("proposal")}>
        <h3>{t("proposal")}</h3>
        <AnswerView value={wait.proposal} />
      </section>
      {decision === "edited" && (
        <>
          <AnswerEditor
            schema={edited}
            value={value}
            problems={problems}
            onChange={(next) => draft.change({ value: next })}
            mode={mode}
            onMode={(next) => draft.change({ mode: next })}
            texts={draft.texts}
          />
          <Changes before={wait.proposal} after={value} />
        </>
      )}
      <Field label={decision === "rejected" ? t("noteWhy") : t("note")} hint={t("noteHint")}>
        {(wired) => (
          <TextArea
            {...wired}
            rows={2}
            maxLength={NOTE_CHARS}
            value={note}
            onChange={({ target }) => draft.change({ note: target.value })}
          />
        )}
      </Field>
      {decision !== "edited" && problems.size > 0 && (
        <ul className={styles.unplaced} role="alert">
          {[...problems].map(([place, message]) => (
            <li key={place}>
              <code>{visible(place)}</code> <UserText text={message} />
            </li>
          ))}
        </ul>
      )}
      {problem && <ProblemBox problem={problem} />}
      <div className={styles.actions}>
        <div className={styles.decisions}>
          <span className={styles.decisionLabel} aria-hidden>
            {t("decision")}
          </span>
          <Segments
            label={t("decision")}
            value={decision}
            options={decisions.map((each) => ({
              value: each,
              label: t(`decide.${each}`),
            }))}
            onChange={(next) => draft.change({ decision: next })}
          />
        </div>
        <Button
          kind={decision === "rejected" ? "danger" : "primary"}
          type="submit"
          disabled={sending}
          aria-keyshortcuts={SEND_KEYS}
          title={t("sendKeys")}
        >
          <Icon size={15} aria-hidden />
          {sending ? t("sending") : t(`submit.${decision}`)}
        </Button>
      </div>
    </Form>
  );
}
