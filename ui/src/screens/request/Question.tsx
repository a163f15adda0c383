/** The question that a request waits on, and the box for its answer. */
import { CircleHelp, Send } from "lucide-react";
import { useState } from "react";
import { useAct } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Markdown } from "../../requests/Markdown";
import { messages as common } from "../../requests/messages";
import { requestTone } from "../../requests/RequestStatus";
import { type AgentRequest, resume } from "../../requests/requestApi";
import { Button, Field, joined, TextArea } from "../../ui/controls";
import { ProblemBox } from "../../ui/feedback";
import { showToast } from "../../ui/toasts";
import { onSendShortcut, SEND_KEYS } from "../wait/sendShortcut";
import { messages } from "./messages";
import local from "./Request.module.css";

export function Question({ request }: { request: AgentRequest }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [text, setText] = useState("");
  const sending = useAct((answer: string) => resume(request.id, answer), {
    quiet: true,
    refresh: [["requests"], ["waits"]],
    onDone: () => showToast({ tone: "good", title: t("answered"), detail: request.title }),
  });
  const answer = text.trim();
  const send = () => {
    if (answer && !sending.isPending && !sending.isSuccess) sending.mutate(answer);
  };
  return (
    <section className={joined(local.pinned, requestTone("needs_input"))} aria-label={t("question")}>
      <CircleHelp size={17} aria-hidden />
      <div className={local.question}>
        <Markdown text={request.blocked_reason ?? t("noQuestion")} />
        <form
          noValidate
          onKeyDown={onSendShortcut(send)}
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          <Field label={t("yourAnswer")} hint={t("answerHint")}>
            {(wired) => (
              <TextArea {...wired} rows={3} value={text} onChange={(event) => setText(event.target.value)} />
            )}
          </Field>
          {sending.error && <ProblemBox problem={sending.error} />}
          <Button
            kind="primary"
            type="submit"
            disabled={!answer || sending.isPending || sending.isSuccess}
            aria-keyshortcuts={SEND_KEYS}
          >
            <Send size={14} aria-hidden />
            {c("resume")}
          </Button>
        </form>
      </div>
    </section>
  );
}
