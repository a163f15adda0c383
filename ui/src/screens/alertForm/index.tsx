/** The form of a new alert, or of one that is edited; it shows whether the condition is met now. */

import { Plus, Trash2 } from "lucide-react";
import { useMemo, useState } from "react";
import { useAct, useRead } from "../../api/queries";
import { href, navigate, usePlace } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import styles from "../../triggers/Triggers.module.css";
import { Button, IconButton, joined } from "../../ui/controls";
import {
  ChoiceField,
  type Draft,
  errorsByField,
  FormContext,
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
import { UserText } from "../../ui/UserText";
import {
  type Alert,
  alertHref,
  alertRef,
  type CheckRequest,
  checkAlert,
  readAlert,
  saveAlert,
} from "../alerts/alertApi";
import { messages as common } from "../alerts/messages";
import local from "./AlertForm.module.css";
import {
  CONDITIONS,
  type Condition,
  channelCount,
  channelField,
  checkOf,
  draftOf,
  empty,
  FIELDS,
  findings,
  inputNames,
  KINDS,
  type Kind,
  LANGUAGES,
  MOST_CHANNELS,
  newChannel,
  requestOf,
  withoutChannel,
} from "./draft";
import { messages } from "./messages";

const CONFLICT = "ERR-PYOCO-0074";
const EVERY_MS = 10_000;

export default function Screen({ params }: ScreenProps) {
  const tenant = usePlace().query.get("tenant");
  return params.id === undefined ? (
    <AlertForm stored={null} />
  ) : (
    <Edit key={`${tenant} ${params.id}`} id={params.id} tenant={tenant} />
  );
}

function Edit({ id, tenant }: { id: string; tenant: string | null }) {
  const t = useMessages(messages);
  const { data, error, refetch } = useRead(["alert", "edit", id, tenant], (signal) =>
    readAlert({ id, tenant }, signal),
  );
  if (data) return <AlertForm key={data.revision} stored={data} />;
  return <LoadingPage title={t("editTitle", { alert: id })} problem={error} onRetry={refetch} />;
}

function useAlertForm(stored: Alert | null) {
  const t = useMessages(messages);
  const language = useLanguage();
  const [draft, setDraft] = useState<Draft>(() => (stored ? draftOf(stored) : empty(language)));
  const id = (draft.alert_id ?? "").trim();
  const save = useAct(() => saveAlert(id, requestOf(draft, stored?.revision ?? null)), {
    quiet: true,
    refresh: [["alert"], ["alerts"]],
    onDone: (saved) => {
      showToast({ tone: "good", title: t("isSaved", { alert: saved.alert_id }) });
      navigate(alertHref(alertRef(saved)));
    },
  });
  const texts = { required: t("required"), badNumber: t("badNumber") };
  const own = findings(draft, texts, stored === null);
  const saving = useSaving(save, draft, own);
  const { problem } = saving;
  const isStale = problem?.errId === CONFLICT && stored !== null;
  const serverErrors = errorsByField(problem, inputNames(draft));
  return {
    ...saving,
    draft,
    change: (patch: Draft) => setDraft((now) => ({ ...now, ...patch })),
    wrong: { ...serverErrors.wrong, ...(saving.tried ? own : {}) } as Wrong,
    problem: isStale ? null : serverErrors.rest,
    isStale,
  };
}

function AlertForm({ stored }: { stored: Alert | null }) {
  const t = useMessages(messages);
  const form = useAlertForm(stored);
  return (
    <Page title={stored ? t("editTitle", { alert: stored.alert_id }) : t("title")}>
      <FormContext value={form}>
        <Form className={saves.form} refusal={form.refused} onSubmit={form.submit}>
          <Card title={t("when")}>
            <div className={styles.fields}>
              <RuleFields isNew={stored === null} />
              <LiveCheck />
            </div>
          </Card>
          <Card title={t("where")}>
            <div className={styles.fields}>
              <Channels stored={stored} />
            </div>
          </Card>
          <Card title={t("how")}>
            <div className={styles.fields}>
              <Options />
            </div>
          </Card>
          {form.isStale && (
            <StaleNote
              title={t("conflictTitle")}
              text={t("conflictText")}
              load={t("conflictLoad")}
              onLoad={() => window.location.reload()}
            />
          )}
          {form.problem && <ProblemBox problem={form.problem} />}
          <SaveBar
            isNew={stored === null}
            isPending={form.isPending}
            back={stored ? alertHref(alertRef(stored)) : href("/alerts")}
          />
        </Form>
      </FormContext>
    </Page>
  );
}

function RuleFields({ isNew }: { isNew: boolean }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const { draft } = useForm();
  const condition = draft.condition as Condition;
  const has = (name: string) => FIELDS[condition].includes(name);
  return (
    <>
      <div className={styles.row}>
        <TextField
          name="alert_id"
          label={t("id")}
          hint={isNew ? t("idHint") : t("idFixed")}
          disabled={!isNew}
          required={isNew}
          maxLength={64}
        />
        <ChoiceField
          name="condition"
          label={t("condition")}
          hint={t(`hint.${condition}`)}
          options={CONDITIONS}
          text={(each) => c(`condition.${each}`)}
        />
      </div>
      <div className={styles.row}>
        {has("flow_name") && (
          <TextField name="flow_name" label={t("flow")} hint={t("flowHint")} required maxLength={200} />
        )}
        {has("tag") && <TextField name="tag" label={t("tag")} hint={t("tagHint")} required maxLength={64} />}
        {has("count") && <TextField name="count" label={t("countField")} required inputMode="numeric" />}
        {has("percent") && <TextField name="percent" label={t("percent")} required inputMode="decimal" />}
        {has("min_runs") && <TextField name="min_runs" label={t("minRuns")} inputMode="numeric" />}
        {has("window_sec") && (
          <TextField name="window_sec" label={t("window")} hint={t("windowHint")} inputMode="decimal" />
        )}
        {has("after_sec") && <TextField name="after_sec" label={t("after")} required inputMode="decimal" />}
      </div>
    </>
  );
}

/** Whether the condition is met now, as the gateway finds it. */
function LiveCheck() {
  const t = useMessages(messages);
  const { draft } = useForm();
  const request = useMemo(() => checkOf(draft), [draft]);
  const key = JSON.stringify(request);
  const { data, error } = useRead(
    ["alert-check", key],
    async (signal) => {
      // Not for each letter that is typed.
      await new Promise((resolve) => setTimeout(resolve, 300));
      signal.throwIfAborted();
      return checkAlert(request as CheckRequest, signal);
    },
    { enabled: request !== null, every: EVERY_MS, keep: true },
  );
  return (
    <div className={local.check} role="status" aria-label={t("now")}>
      {request === null ? (
        <span className={styles.soft}>{t("incomplete")}</span>
      ) : error ? (
        <ProblemBox problem={error} />
      ) : data ? (
        <>
          <span className={joined(styles.outcome, data.met ? styles.bad : styles.good)}>
            {data.met ? t("metNow") : t("notMetNow")}
          </span>{" "}
          <UserText text={data.text} />
        </>
      ) : (
        <span className={styles.soft}>{t("checking")}</span>
      )}
    </div>
  );
}

function Channels({ stored }: { stored: Alert | null }) {
  const t = useMessages(messages);
  const { draft, change } = useForm();
  const count = channelCount(draft);
  return (
    <>
      {Array.from({ length: count }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a channel is named by its place in the draft.
        <ChannelFields key={index} index={index} stored={stored} removable={count > 1} />
      ))}
      {count < MOST_CHANNELS && (
        <div>
          <Button onClick={() => change({ ...newChannel(count), channels: String(count + 1) })}>
            <Plus size={14} aria-hidden />
            {t("addChannel")}
          </Button>
        </div>
      )}
    </>
  );
}

interface ChannelProps {
  index: number;
  stored: Alert | null;
  removable: boolean;
}

function ChannelFields({ index, stored, removable }: ChannelProps) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const { draft, change } = useForm();
  const field = (name: string) => channelField(index, name);
  const kind = (draft[field("kind")] ?? "webhook") as Kind;
  const name = draft[field("name")];
  // A stored channel of this name and kind keeps its URL and secret.
  const kept = stored?.channels.find((each) => each.name === name && each.kind === kind);
  return (
    <fieldset className={local.channel}>
      <legend>{t("channelNumber", { number: index + 1 })}</legend>
      <div className={styles.row}>
        <TextField name={field("name")} label={t("channelName")} required maxLength={64} />
        <ChoiceField
          name={field("kind")}
          label={t("channelKind")}
          options={KINDS}
          text={(each) => c(`kind.${each}`)}
        />
      </div>
      <div className={styles.row}>
        {kind === "mail" ? (
          <TextField name={field("to")} label={t("to")} hint={t("toHint")} required />
        ) : (
          <TextField
            name={field("url")}
            type="password"
            label={t("url")}
            required={!kept}
            hint={kept ? t("urlKept", { fingerprint: kept.fingerprint }) : t(`urlHint.${kind}`)}
          />
        )}
        {kind === "webhook" && (
          <TextField
            name={field("secret")}
            type="password"
            label={t("secret")}
            hint={kept?.signed ? t("secretKept") : t("secretHint")}
          />
        )}
      </div>
      {removable && (
        <IconButton
          label={t("removeChannel", { number: index + 1 })}
          icon={<Trash2 size={14} />}
          onClick={() => change(withoutChannel(draft, index))}
        />
      )}
    </fieldset>
  );
}

function Options() {
  const t = useMessages(messages);
  const { draft, change } = useForm();
  return (
    <>
      <div className={styles.row}>
        <TextField
          name="cool_down_sec"
          label={t("coolDown")}
          required
          hint={t("coolDownHint")}
          inputMode="decimal"
        />
        <ChoiceField
          name="language"
          label={t("language")}
          options={LANGUAGES}
          text={(each) => (each === "en" ? t("english") : t("japanese"))}
        />
      </div>
      {draft.condition !== "run_failed" && (
        <label className={styles.check}>
          <input
            type="checkbox"
            checked={draft.send_resolved === "yes"}
            onChange={(event) => change({ send_resolved: event.target.checked ? "yes" : "no" })}
          />
          {t("sendResolved")}
        </label>
      )}
      <TextField name="note" label={t("note")} hint={t("noteHint")} maxLength={1000} />
    </>
  );
}
