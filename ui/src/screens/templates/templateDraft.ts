/** What is typed into the form of a template, and the request that it makes. */
import type { Schemas } from "../../api/client";
import type { Template } from "../../triggers/eventApi";
import { numberOrText } from "../../triggers/flowBinding";
import type { Draft } from "../../ui/draftForm";

export const TRIGGERS = ["external_event", "manual_start", "scheduled"] as const;

export const MODES = ["manual_confirm", "auto"] as const;
export const MOST_STEPS = 30;

/** The fields of a template that are typed once. */
export const EMPTY_FIELDS: Draft = {
  id: "",
  name: "",
  trigger_kind: "external_event",
  year: "",
  month: "",
  mfcloud_url: "",
  notes: "",
  overlap: "allow",
};

export const EMPTY_STEP: Draft = {
  id: "",
  title: "",
  action: "",
  execution_mode: "manual_confirm",
  timer_minutes: "",
};

export interface TemplateDraft {
  fields: Draft;
  steps: readonly Draft[];
}

export const EMPTY_TEMPLATE: TemplateDraft = { fields: EMPTY_FIELDS, steps: [EMPTY_STEP] };

const typed = (number: number): string => (number ? String(number) : "");

export const templateDraft = (template: Template): TemplateDraft => ({
  fields: {
    id: template.id,
    name: template.name,
    trigger_kind: template.steps[0]?.trigger_kind ?? "external_event",
    year: typed(template.year),
    month: typed(template.month),
    mfcloud_url: template.mfcloud_url,
    notes: template.notes,
    overlap: template.overlap,
  },
  steps: template.steps.map(({ id, title, action, execution_mode, timer_minutes }) => ({
    id,
    title,
    action,
    execution_mode,
    timer_minutes: typed(timer_minutes),
  })),
});

/** What the gateway calls a field of a step. */
export const stepField = (at: number, field: string) => `steps[${at}].${field}`;

/** The names of all inputs. */
export const inputNames = ({ fields, steps }: TemplateDraft): string[] => [
  ...Object.keys(fields),
  ...steps.flatMap((step, at) => Object.keys(step).map((field) => stepField(at, field))),
];

/** A number as typed if it is none: the gateway says what is wrong with it. */
const number = (typed: string | undefined): number => (numberOrText(typed ?? "") ?? 0) as number;

/** The first step starts as chosen, each other one after that before it. */
const stepOf = (step: Draft, triggerKind: string): Schemas["StepInput"] => ({
  id: (step.id ?? "").trim(),
  title: (step.title ?? "").trim(),
  action: (step.action ?? "").trim(),
  trigger_kind: triggerKind,
  execution_mode: step.execution_mode === "auto" ? "auto" : "manual_confirm",
  timer_minutes: number(step.timer_minutes),
});

export const templateRequest = (
  { fields, steps }: TemplateDraft,
  stored: Template | null,
): Schemas["TemplateRequest"] => ({
  id: fields.id?.trim() || null,
  name: (fields.name ?? "").trim(),
  year: number(fields.year),
  month: number(fields.month),
  mfcloud_url: (fields.mfcloud_url ?? "").trim(),
  notes: fields.notes ?? "",
  steps: steps.map((step, at) => stepOf(step, at === 0 ? (fields.trigger_kind ?? "") : "after_previous")),
  overlap: fields.overlap === "forbid" ? "forbid" : "allow",
  base_updated_at: stored?.updated_at ?? null,
});
