/** The form of a template, in a dialog. */
import { useState } from "react";
import { useAct } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { saveTemplate, type Template } from "../../triggers/eventApi";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import {
  ChoiceField,
  type Draft,
  errorsByField,
  FormContext,
  LinesField,
  TextField,
  type Wrong,
} from "../../ui/draftForm";
import { FormDialog } from "../../ui/FormDialog";
import { messages as uiMessages } from "../../ui/messages";
import { showToast } from "../../ui/toasts";
import { messages } from "./messages";
import { StepFields } from "./StepFields";
import {
  EMPTY_TEMPLATE,
  inputNames,
  stepField,
  type TemplateDraft,
  TRIGGERS,
  templateDraft,
  templateRequest,
} from "./templateDraft";

const OVERLAPS = ["allow", "forbid"] as const;

interface TemplateFormProps {
  stored: Template | null;
  onClose: () => void;
  onSaved?: (template: Template) => void;
}

/** What is missing, before the gateway is asked. */
function useOwnFindings({ fields, steps }: TemplateDraft): Wrong {
  const t = useMessages(messages);
  const wrong: Wrong = {};
  if (fields.name?.trim() === "") wrong.name = t("requiredName");
  steps.forEach((step, at) => {
    if (step.action?.trim() === "") wrong[stepField(at, "action")] = t("requiredAction");
  });
  return wrong;
}

export function TemplateForm({ stored, onClose, onSaved }: TemplateFormProps) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const u = useMessages(uiMessages);
  const [draft, setDraft] = useState(() => (stored ? templateDraft(stored) : EMPTY_TEMPLATE));
  // A new object for each refusal.
  const [refused, setRefused] = useState<object | null>(null);
  const save = useAct(() => saveTemplate(templateRequest(draft, stored)), {
    quiet: true,
    refresh: [["templates"], ["template"]],
    onDone: ({ template }) => {
      showToast({ tone: "good", title: c("isSaved", { name: template.name }) });
      onClose();
      onSaved?.(template);
    },
  });
  const own = useOwnFindings(draft);
  const serverErrors = errorsByField(save.error, inputNames(draft));
  const wrong = { ...serverErrors.wrong, ...(refused ? own : {}) };
  const submit = () => {
    if (save.isPending) return;
    if (Object.keys(own).length > 0) setRefused({});
    else save.mutate(undefined, { onError: () => setRefused({}) });
  };
  const replace = (next: TemplateDraft) => {
    save.reset();
    setDraft(next);
  };
  const change = (patch: Draft) => replace({ ...draft, fields: { ...draft.fields, ...patch } });
  return (
    <FormDialog
      title={stored ? t("editTemplateTitle", { name: stored.name }) : t("templateTitle")}
      width={640}
      confirm={save.isPending ? u("saving") : u("save")}
      isPending={save.isPending}
      problem={serverErrors.rest}
      refusal={refused}
      onSubmit={submit}
      onClose={onClose}
    >
      <FormContext value={{ draft: draft.fields, change, wrong }}>
        <div className={styles.fields}>
          <Inputs isNew={stored === null} />
          <StepFields steps={draft.steps} wrong={wrong} onChange={(steps) => replace({ ...draft, steps })} />
        </div>
      </FormContext>
    </FormDialog>
  );
}

function Inputs({ isNew }: { isNew: boolean }) {
  const t = useMessages(messages);
  return (
    <>
      <div className={styles.row}>
        <TextField name="name" label={t("name")} required maxLength={80} />
        <TextField
          name="id"
          label={t("id")}
          hint={isNew ? t("idHint") : t("idFixed")}
          disabled={!isNew}
          maxLength={64}
        />
      </div>
      <div className={styles.row}>
        <ChoiceField
          name="trigger_kind"
          label={t("triggerKind")}
          hint={t("triggerHint")}
          options={TRIGGERS}
          text={(each) => t(`trigger.${each}`)}
        />
        <ChoiceField
          name="overlap"
          label={t("overlap")}
          options={OVERLAPS}
          text={(each) => t(`overlap.${each}`)}
        />
      </div>
      <div className={styles.row}>
        <TextField name="year" label={t("year")} hint={t("yearHint")} inputMode="numeric" />
        <TextField name="month" label={t("monthField")} inputMode="numeric" />
      </div>
      <TextField name="mfcloud_url" label={t("url")} hint={t("urlHint")} inputMode="url" />
      <LinesField name="notes" label={t("notes")} />
    </>
  );
}
