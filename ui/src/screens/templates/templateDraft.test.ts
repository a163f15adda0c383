import { expect, it } from "vitest";
import type { Problem } from "../../api/problem";
import type { Template } from "../../triggers/eventApi";
import { errorsByField } from "../../ui/draftForm";
import {
  EMPTY_FIELDS,
  EMPTY_STEP,
  EMPTY_TEMPLATE,
  inputNames,
  templateDraft,
  templateRequest,
} from "./templateDraft";

const STORED = {
  id: "monthly-close",
  name: "Monthly close",
  year: 2026,
  month: 0,
  mfcloud_url: "https://example.org",
  notes: "n",
  overlap: "forbid",
  steps: [
    {
      id: "s1",
      title: "Start",
      action: "close",
      trigger_kind: "external_event",
      execution_mode: "auto",
      timer_minutes: 5,
    },
    {
      id: "s2",
      title: "Check it",
      action: "check",
      trigger_kind: "after_previous",
      execution_mode: "auto",
      timer_minutes: 0,
    },
  ],
  created_at: "2026-11-01T00:00:00Z",
  updated_at: "2026-11-02T00:00:00Z",
  tenant_id: null,
} as Template;

it("makes a new template", () => {
  const fields = { ...EMPTY_FIELDS, name: " Close ", month: "11" };
  const steps = [
    { ...EMPTY_STEP, action: " close " },
    { ...EMPTY_STEP, action: "send", title: "To Bo", execution_mode: "auto", timer_minutes: "5" },
  ];
  expect(templateRequest({ fields, steps }, null)).toMatchObject({
    id: null,
    name: "Close",
    year: 0,
    month: 11,
    base_updated_at: null,
    steps: [
      { action: "close", trigger_kind: "external_event", execution_mode: "manual_confirm", timer_minutes: 0 },
      {
        action: "send",
        title: "To Bo",
        trigger_kind: "after_previous",
        execution_mode: "auto",
        timer_minutes: 5,
      },
    ],
  });
});

it("keeps every field of a stored one", () => {
  const { created_at, updated_at, tenant_id, ...fields } = STORED;
  expect(templateRequest(templateDraft(STORED), STORED)).toEqual({ ...fields, base_updated_at: updated_at });
});

it("takes each step with its own settings when one before it is removed", () => {
  const { fields, steps } = templateDraft(STORED);
  const [left] = templateRequest({ fields, steps: steps.slice(1) }, STORED).steps;
  expect(left).toEqual({ ...STORED.steps[1], trigger_kind: "external_event" });
});

it("leaves a wrong number to the gateway", () => {
  const steps = [{ ...EMPTY_STEP, timer_minutes: "soon" }];
  const request = templateRequest({ fields: { ...EMPTY_FIELDS, month: "May" }, steps }, null);
  expect([request.month, request.steps[0]?.timer_minutes]).toEqual(["May", "soon"]);
});

it("places an error of the gateway at the field of its step", () => {
  const problem = { fields: [{ field: "steps[1].action", message: "too long" }] } as unknown as Problem;
  const names = inputNames({ ...EMPTY_TEMPLATE, steps: [EMPTY_STEP, EMPTY_STEP] });
  expect(errorsByField(problem, names)).toEqual({ wrong: { "steps[1].action": "too long" }, rest: null });
});
