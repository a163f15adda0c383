/** The form of a new request, or of one that is edited. */

import { Save } from "lucide-react";
import { useState } from "react";
import { messages as common } from "../../agentRequests/messages";
import styles from "../../agentRequests/Requests.module.css";
import { PRIORITIES, requestPath } from "../../agentRequests/request";
import {
  changeRequest,
  createRequest,
  type RequestDetail,
  readRequest,
} from "../../agentRequests/requestApi";
import type { Problem } from "../../api/problem";
import { useAct, useRead } from "../../api/queries";
import { href, navigate } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { Button, ButtonLink } from "../../ui/controls";
import { ChoiceField, type Draft, FormContext, LinesField, TextField, type Wrong } from "../../ui/draftForm";
import { Form } from "../../ui/Form";
import { ProblemBox } from "../../ui/feedback";
import { Card, Page } from "../../ui/Page";
import { LoadingPage } from "../../ui/pageStates";
import { SEND_KEYS } from "../../ui/sendShortcut";
import { changes, draftOf, EMPTY, newRequest } from "./draft";
import { messages } from "./messages";

export default function Screen({ params: { id } }: ScreenProps) {
  return id === undefined ? <RequestForm stored={null} /> : <Edit key={id} id={id} />;
}

function Edit({ id }: { id: string }) {
  const t = useMessages(messages);
  const { data, error, refetch } = useRead(["requests", "edit", id], (signal) => readRequest(id, signal));
  if (data) return <RequestForm stored={data} />;
  return <LoadingPage title={t("editTitle")} problem={error} onRetry={refetch} />;
}

function RequestForm({ stored }: { stored: RequestDetail | null }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [base] = useState<Draft>(() => (stored ? draftOf(stored) : EMPTY));
  const [draft, setDraft] = useState(base);
  const [refused, setRefused] = useState<object | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const id = stored?.request.id;
  const save = useAct(
    () => (id === undefined ? createRequest(newRequest(draft)) : changeRequest(id, changes(draft, base))),
    {
      quiet: true,
      refresh: [["requests"]],
      onDone: ({ request }) => navigate(href(requestPath(request.id))),
    },
  );
  const wrong: Wrong = refused && !draft.title?.trim() ? { title: t("requiredTitle") } : {};
  const submit = () => {
    if (save.isPending || save.isSuccess) return;
    if (!draft.title?.trim()) return setRefused({});
    setProblem(null);
    save.mutate(undefined, { onError: setProblem });
  };
  return (
    <Page title={stored ? t("editTitle") : c("create")}>
      <FormContext value={{ draft, change: (patch) => setDraft((now) => ({ ...now, ...patch })), wrong }}>
        <Form className={styles.form} refusal={refused} onSubmit={submit}>
          <Card>
            <div className={styles.fields}>
              <TextField name="title" label={t("title")} hint={t("titleHint")} required maxLength={200} />
              <div className={styles.row}>
                <ChoiceField
                  name="priority"
                  label={c("priority")}
                  options={PRIORITIES}
                  text={(each) => t(`priority.${each}`)}
                />
                <TextField name="tags" label={c("tags")} hint={t("tagsHint")} />
              </div>
              <LinesField name="want" label={c("want")} hint={t("wantHint")} rows={10} />
            </div>
          </Card>
          {problem && <ProblemBox problem={problem} />}
          <div className={styles.actions}>
            <Button
              kind="primary"
              type="submit"
              disabled={save.isPending || save.isSuccess}
              aria-keyshortcuts={SEND_KEYS}
            >
              <Save size={14} aria-hidden />
              {stored ? t("save") : t("create")}
            </Button>
            <ButtonLink href={href(id === undefined ? "/requests" : requestPath(id))}>
              {t("discard")}
            </ButtonLink>
          </div>
        </Form>
      </FormContext>
    </Page>
  );
}
