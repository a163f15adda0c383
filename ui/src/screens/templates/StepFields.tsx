/** The steps of a template in its form: add, remove and move them. */
import { ArrowUp, Plus, Trash2 } from "lucide-react";
import { useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { readActions } from "../../triggers/eventApi";
import styles from "../../triggers/Triggers.module.css";
import { Button, IconButton } from "../../ui/controls";
import { ChoiceField, type Draft, FormContext, TextField, type Wrong } from "../../ui/draftForm";
import { SuggestionList } from "../../ui/SuggestionList";
import { messages } from "./messages";
import local from "./StepFields.module.css";
import { EMPTY_STEP, MODES, MOST_STEPS, stepField } from "./templateDraft";

const KNOWN_ACTIONS = "known-actions";

interface StepFieldsProps {
  steps: readonly Draft[];
  wrong: Wrong;
  onChange: (steps: readonly Draft[]) => void;
}

export function StepFields({ steps, wrong, onChange }: StepFieldsProps) {
  const t = useMessages(messages);
  const { data } = useRead(["templates", "actions"], readActions);
  const without = (at: number) => steps.filter((_, each) => each !== at);
  const movedUp = (at: number) => without(at).toSpliced(at - 1, 0, steps[at] as Draft);
  return (
    <div className={local.steps}>
      <p className={styles.soft}>{t("stepsNote")}</p>
      {steps.map((step, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: steps have nothing else that tells them apart.
        <fieldset key={at} className={local.step} data-step={at + 1}>
          <legend>
            {t("step", { count: at + 1 })}
            {at > 0 && <span className={styles.soft}>{t("trigger.after_previous")}</span>}
          </legend>
          <FormContext
            value={{
              draft: step,
              change: (patch) =>
                onChange(steps.map((each, other) => (other === at ? { ...each, ...patch } : each))),
              wrong: wrongOf(wrong, step, at),
            }}
          >
            <OneStep at={at} />
          </FormContext>
          <div className={local.moves}>
            <IconButton
              label={t("moveUp", { count: at + 1 })}
              icon={<ArrowUp size={14} />}
              disabled={at === 0}
              onClick={() => onChange(movedUp(at))}
            />
            <IconButton
              label={t("removeStep", { count: at + 1 })}
              icon={<Trash2 size={14} />}
              disabled={steps.length === 1}
              onClick={() => onChange(without(at))}
            />
          </div>
        </fieldset>
      ))}
      <SuggestionList id={KNOWN_ACTIONS} values={data?.items.map(({ key }) => key) ?? []} />
      <Button disabled={steps.length >= MOST_STEPS} onClick={() => onChange([...steps, EMPTY_STEP])}>
        <Plus size={14} aria-hidden />
        {t("addStep")}
      </Button>
    </div>
  );
}

/** The errors of one step, by the names of its inputs. */
function wrongOf(wrong: Wrong, step: Draft, at: number): Wrong {
  const own: Wrong = {};
  for (const field of Object.keys(step)) {
    const found = wrong[stepField(at, field)];
    if (found) own[field] = found;
  }
  return own;
}

function OneStep({ at }: { at: number }) {
  const t = useMessages(messages);
  return (
    <>
      <div className={styles.row}>
        <TextField
          name="action"
          label={t("action")}
          hint={at === 0 ? t("actionHint") : undefined}
          list={KNOWN_ACTIONS}
          required
          maxLength={48}
        />
        <TextField name="title" label={t("stepTitle")} maxLength={80} />
      </div>
      <div className={styles.row}>
        <ChoiceField
          name="execution_mode"
          label={t("mode")}
          options={MODES}
          text={(each) => t(`mode.${each}`)}
        />
        <TextField name="timer_minutes" label={t("timer")} hint={t("timerHint")} inputMode="numeric" />
        <TextField name="id" label={t("stepId")} hint={t("stepIdHint", { count: at + 1 })} maxLength={64} />
      </div>
    </>
  );
}
