/** The answer to a question without a proposal. */

import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { fieldOf, initialOf } from "../../schemaForm/fields";
import { problemsOf } from "../../schemaForm/validation";
import { Button } from "../../ui/controls";
import { Form } from "../../ui/Form";
import { ProblemBox } from "../../ui/feedback";
import { SEND_KEYS } from "../../ui/sendShortcut";
import styles from "./Answer.module.css";
import { AnswerEditor } from "./AnswerEditor";
import { useDraft } from "./draft";
import { messages } from "./messages";
import { useAnswering } from "./useAnswering";
import type { Answerable, Wait } from "./wait";
import { schemaOf } from "./wait";

export function AnswerForm({ wait, ...handlers }: { wait: Wait } & Answerable) {
  const t = useMessages(messages);
  const language = useLanguage();
  const schema = schemaOf(wait);
  const draft = useDraft(wait, () => (schema === null ? undefined : initialOf(fieldOf(schema))));
  const { value, mode } = draft.now();
  const { send, sending, problem, problems } = useAnswering({
    waitId: wait.wait_id,
    ...handlers,
  });
  const submit = () => void send(value, () => problemsOf(value, schema, language));
  return (
    <Form className={styles.form} refusal={problems.size > 0 ? problems : null} onSubmit={submit}>
      <AnswerEditor
        schema={schema}
        value={value}
        problems={problems}
        onChange={(next) => draft.change({ value: next })}
        mode={mode}
        onMode={(next) => draft.change({ mode: next })}
        texts={draft.texts}
      />
      {problem && <ProblemBox problem={problem} />}
      <div className={styles.actions}>
        <Button
          kind="primary"
          type="submit"
          disabled={sending}
          aria-keyshortcuts={SEND_KEYS}
          title={t("sendKeys")}
        >
          {sending ? t("sending") : t("send")}
        </Button>
      </div>
    </Form>
  );
}
