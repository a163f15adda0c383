/** The form of a new hook, or of one that is edited. */

import { useMemo, useState } from "react";
import { useAct, useRead } from "../../api/queries";
import { href, navigate, usePlace } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { FlowFields, useBindingFindings } from "../../triggers/FlowFields";
import { changeHook, createHook, type Hook, readHook } from "../../triggers/hookApi";
import { KINDS, type Kind, OVERLAPS, useHookWords } from "../../triggers/kinds";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { hookHref, hookRef } from "../../triggers/triggerRef";
import {
  ChoiceField,
  type Draft,
  errorsByField,
  FormContext,
  LinesField,
  TextField,
  useForm,
  type Wrong,
} from "../../ui/draftForm";
import { Form } from "../../ui/Form";
import { ProblemBox } from "../../ui/feedback";
import { Card, Page } from "../../ui/Page";
import { LoadingPage } from "../../ui/pageStates";
import { SaveBar, StaleNote, useSaving } from "../../ui/saving";
import saves from "../../ui/saving.module.css";
import { showToast } from "../../ui/toasts";
import { keepSecret } from "../hook/newSecret";
import { changeJson, createJson, draftOf, EMPTY, onTop, wrongPair } from "./draft";
import { messages } from "./messages";

const ALGORITHMS = ["sha256", "sha512", "sha1"] as const;
const CONFLICT = "ERR-PYOCO-0061";
const EXAMPLES = { map: "order = /order/id", idempotency: "/event/id", onlyIf: "/action = opened" };
const ENCODINGS = ["hex", "base64"] as const;

export default function Screen({ params }: ScreenProps) {
  const tenant = usePlace().query.get("tenant");
  return params.id === undefined ? (
    <HookForm stored={null} />
  ) : (
    <Edit key={`${tenant} ${params.id}`} id={params.id} tenant={tenant} />
  );
}

function Edit({ id, tenant }: { id: string; tenant: string | null }) {
  const t = useMessages(messages);
  const { data, error, refetch } = useRead(["hook", "edit", id, tenant], (signal) =>
    readHook({ id, tenant }, signal),
  );
  if (data) return <HookForm stored={data} />;
  return <LoadingPage title={t("editTitle", { hook: id })} problem={error} onRetry={refetch} />;
}

interface State {
  draft: Draft;
  base: Draft;
  revision: number;
}

function useHookForm(stored: Hook | null) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [state, setState] = useState<State>(() => {
    const base = stored ? draftOf(stored) : EMPTY;
    return { draft: base, base, revision: stored?.revision ?? 0 };
  });
  const { draft, base, revision } = state;
  const save = useAct(
    async () => {
      if (!stored) return createHook(createJson(draft));
      return changeHook(hookRef(stored), changeJson(draft, base, revision));
    },
    {
      quiet: true,
      refresh: [["hook"], ["hooks"]],
      onDone: (saved) => {
        const name = saved.hook_id;
        showToast({ tone: "good", title: stored ? c("isSaved", { name }) : t("created", { hook: name }) });
        if ("secret" in saved) keepSecret(saved as never);
        navigate(hookHref(hookRef(saved)));
      },
    },
  );
  const reload = useAct(() => readHook(hookRef(stored as Hook)), {
    onDone: (current) => {
      const theirs = draftOf(current);
      setState({ draft: onTop(draft, base, theirs), base: theirs, revision: current.revision });
      saving.clearProblem();
    },
  });
  const own = useOwnFindings(draft);
  const saving = useSaving(save, draft, own);
  const { problem } = saving;
  const serverErrors = errorsByField(problem, Object.keys(EMPTY));
  // A change of somebody else or, for a new hook, an id that is taken.
  const isConflict = problem?.errId === CONFLICT;
  return {
    ...saving,
    draft,
    change: (patch: Draft) => setState((now) => ({ ...now, draft: { ...now.draft, ...patch } })),
    wrong: {
      ...serverErrors.wrong,
      ...(isConflict && !stored && { hook_id: problem.detail }),
      ...(saving.tried ? own : {}),
    } as Wrong,
    problem: isConflict ? null : serverErrors.rest,
    isStale: isConflict && stored !== null,
    reload,
  };
}

/** Validation without the gateway. */
function useOwnFindings(draft: Draft): Wrong {
  const t = useMessages(messages);
  const c = useMessages(common);
  const binding = useBindingFindings(draft);
  return useMemo(() => {
    const found: Wrong = { ...binding };
    if ((draft.hook_id ?? "").trim() === "") found.hook_id = t("requiredId");
    for (const name of ["map", "only_if"] as const) {
      const line = wrongPair(draft, name);
      if (line !== null) found[name] = c("badPair", { line });
    }
    return found;
  }, [t, c, binding, draft]);
}

function HookForm({ stored }: { stored: Hook | null }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const form = useHookForm(stored);
  return (
    <Page title={stored ? t("editTitle", { hook: stored.hook_id }) : t("title")}>
      <FormContext value={form}>
        <Form className={saves.form} refusal={form.refused} onSubmit={form.submit}>
          <Card title={t("sender")}>
            <div className={styles.fields}>
              <SenderFields isNew={stored === null} />
            </div>
          </Card>
          <Card title={t("starts")}>
            <div className={styles.fields}>
              <FlowFields />
            </div>
          </Card>
          <Card title={t("rules")}>
            <div className={styles.fields}>
              <RuleFields />
            </div>
          </Card>
          {form.isStale && (
            <StaleNote
              title={c("conflictTitle")}
              text={c("conflictText")}
              load={c("conflictLoad")}
              disabled={form.reload.isPending}
              onLoad={() => form.reload.mutate()}
            />
          )}
          {form.problem && <ProblemBox problem={form.problem} />}
          <SaveBar
            isNew={stored === null}
            isPending={form.isPending}
            back={stored ? hookHref(hookRef(stored)) : href("/hooks")}
          />
        </Form>
      </FormContext>
    </Page>
  );
}

function SenderFields({ isNew }: { isNew: boolean }) {
  const t = useMessages(messages);
  const words = useHookWords();
  const { draft } = useForm();
  const kind = (draft.kind ?? "token") as Kind;
  return (
    <>
      <div className={styles.row}>
        <TextField
          name="hook_id"
          label={t("id")}
          hint={isNew ? t("idHint") : t("idFixed")}
          disabled={!isNew}
          required={isNew}
          maxLength={64}
        />
        <ChoiceField
          name="kind"
          label={t("kind")}
          hint={t(`kindHint.${kind}`)}
          options={KINDS}
          text={words}
          disabled={!isNew}
        />
        {isNew && kind !== "nats" && (
          <TextField name="secret" type="password" label={t("secret")} hint={t("secretHint")} />
        )}
      </div>
      {kind === "token" && <TextField name="header" label={t("header")} hint={t("tokenHeaderHint")} />}
      {kind === "hmac" && (
        <div className={styles.row}>
          <TextField name="header" label={t("header")} hint={t("hmacHeaderHint")} />
          <ChoiceField name="algorithm" label={t("algorithm")} options={ALGORITHMS} text={upper} />
          <ChoiceField name="encoding" label={t("encoding")} options={ENCODINGS} text={(each) => each} />
          <TextField name="prefix" label={t("prefix")} hint={t("prefixHint")} />
          <TextField name="timestamp_header" label={t("timestampHeader")} hint={t("timestampHint")} />
          <TextField
            name="signed_text"
            label={t("signedText")}
            hint={t("signedTextHint", { timestampWord: "{timestamp}", bodyWord: "{body}" })}
          />
        </div>
      )}
    </>
  );
}

const upper = (word: string) => word.toUpperCase();

function RuleFields() {
  const t = useMessages(messages);
  const c = useMessages(common);
  const words = useHookWords();
  return (
    <>
      <LinesField name="map" label={t("map")} hint={t("mapHint")} placeholder={EXAMPLES.map} rows={3} />
      <div className={styles.row}>
        <TextField
          name="idempotency"
          label={t("idempotency")}
          hint={t("idempotencyHint")}
          placeholder={EXAMPLES.idempotency}
        />
        <ChoiceField name="overlap" label={c("overlap")} options={OVERLAPS} text={words} />
      </div>
      <LinesField name="only_if" label={t("onlyIf")} hint={t("onlyIfHint")} placeholder={EXAMPLES.onlyIf} />
      <TextField name="note" label={c("note")} hint={t("noteHint")} maxLength={1000} />
    </>
  );
}
