/** The question that a request waits on, and the box for its answer. */
import { CircleHelp, Send } from "lucide-react";
import { useState } from "react";
import { Markdown } from "../../agentRequests/Markdown";
import { messages as common } from "../../agentRequests/messages";
import { requestTone } from "../../agentRequests/RequestStatus";
import { questionText, withoutChoices } from "../../agentRequests/request";
import { type AgentRequest, resume } from "../../agentRequests/requestApi";
import { useMay } from "../../api/access";
import { useAct } from "../../api/queries";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { Arming, useIsArmed } from "../../ui/arming";
import { Button, Field, joined, TextArea } from "../../ui/controls";
import { ProblemBox } from "../../ui/feedback";
import { onSendShortcut, SEND_KEYS } from "../../ui/sendShortcut";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import local from "./Request.module.css";

export function Question({ request }: { request: AgentRequest }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { question, blocked_reason } = request;
  const asked = blocked_reason ?? question?.text ?? t("noQuestion");
  return (
    <section className={joined(local.pinned, requestTone("needs_input"))} aria-label={t("question")}>
      <CircleHelp size={17} aria-hidden />
      <div className={local.question}>
        <Markdown text={questionText(question?.choices?.length ? withoutChoices(asked) : asked, language)} />
        <Arming key={question?.wait_id}>
          <AnswerBox request={request} />
        </Arming>
      </div>
    </section>
  );
}

function AnswerBox({ request }: { request: AgentRequest }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const isArmed = useIsArmed();
  const [text, setText] = useState("");
  const choices = request.question?.choices ?? [];
  const waitId = request.question?.wait_id ?? null;
  const sending = useAct((answer: string) => resume(request.id, answer, waitId), {
    quiet: true,
    refresh: [["requests"], ["waits"]],
    onDone: () => showToast({ tone: "good", title: t("answered"), detail: request.title }),
  });
  const isSent = sending.isPending || sending.isSuccess;
  const send = () => {
    if (text.trim() && !isSent && isArmed) sending.mutate(text.trim());
  };
  if (!useMay("POST /api/v1/requests/{request_id}/resume")) return <p>{t("mayNotAnswer")}</p>;
  return (
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
      {choices.length > 0 && (
        <div className={local.choices}>
          {choices.map((choice) => (
            <Button key={choice} aria-pressed={choice === text} onClick={() => setText(choice)}>
              <UserText text={choice} />
            </Button>
          ))}
        </div>
      )}
      {sending.error && <ProblemBox problem={sending.error} />}
      <Button kind="primary" type="submit" disabled={!text.trim() || isSent} aria-keyshortcuts={SEND_KEYS}>
        <Send size={14} aria-hidden />
        {c("resume")}
      </Button>
    </form>
  );
}
