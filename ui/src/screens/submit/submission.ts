/** Builds requests from typed text, and maps errors of the gateway to fields. */
import type { FieldProblem, Problem } from "../../api/problem";
import type { Mark, Place } from "../../editor/CodeEditor";
import { errorPosition } from "../../lib/jsonPosition";
import type { Draft } from "./draft";

/** A run without its params, which are sent as typed. */
export interface RunBody {
  flow_name: string;
  tag?: string;
  tags?: string[];
  timeout_sec?: number;
  start_at?: number;
  delay_sec?: number;
}

/** The params as typed, or the position of a syntax error (null: valid JSON, but not an object). */
export type Parsed = { json: string } | { place: Place | null };

/** Params must be a JSON object; empty text is an empty object. */
export function parseParams(text: string): Parsed {
  if (text.trim() === "") return { json: "{}" };
  const wrong = errorPosition(text);
  if (wrong !== null) return { place: placeAt(text, wrong) };
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { place: null };
  return { json: text.trim() };
}

export function placeAt(text: string, position: number): Place {
  const lines = text.slice(0, position).split("\n");
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

export const tagsIn = (text: string): string[] =>
  text
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);

export const UNITS = { seconds: 1, minutes: 60, hours: 3_600, days: 86_400 } as const;
export type TimeUnit = keyof typeof UNITS;
export const STARTS = ["now", "at", "in"] as const;

/** When to start: unix seconds, or seconds from now; NaN: not a moment or a number. */
export function startOf(draft: Draft): { start_at?: number; delay_sec?: number } {
  const unit = UNITS[draft.startUnit as TimeUnit] ?? 1;
  if (draft.start === "at") return { start_at: new Date(draft.startAt).getTime() / 1000 };
  if (draft.start === "in")
    return { delay_sec: draft.startIn.trim() ? Number(draft.startIn) * unit : Number.NaN };
  return {};
}

export function runBody(draft: Draft): RunBody {
  const tags = tagsIn(draft.tags);
  return {
    flow_name: draft.flowName.trim(),
    ...(draft.tag.trim() && { tag: draft.tag.trim() }),
    ...(tags.length > 0 && { tags }),
    ...(draft.timeoutSec.trim() && { timeout_sec: Number(draft.timeoutSec) }),
    ...startOf(draft),
  };
}

/** The request; numbers in params are sent as typed, however long. */
export const runJson = (draft: Draft, params: string): string =>
  `${JSON.stringify(runBody(draft)).slice(0, -1)},"params":${params}}`;

export function yamlForm(draft: Draft): FormData {
  const form = new FormData();
  form.set("flow_name", draft.flowName.trim());
  if (draft.tag.trim()) form.set("tag", draft.tag.trim());
  if (draft.timeoutSec.trim()) form.set("timeout_sec", draft.timeoutSec.trim());
  for (const [name, value] of Object.entries(startOf(draft))) form.set(name, String(value));
  form.set("workflow", new Blob([draft.yaml], { type: "application/yaml" }), "flow.yaml");
  return form;
}

export const FIELDS = ["flow_name", "tag", "tags", "timeout_sec", "start_at", "delay_sec", "params"] as const;
export type FieldName = (typeof FIELDS)[number];

export interface Sorted {
  /** Errors by form field. */
  fields: Partial<Record<FieldName, string>>;
  /** Errors at positions of the flow.yaml. */
  marks: Mark[];
  /** Other errors. */
  rest: FieldProblem[];
}

/** Maps each error of the gateway to where it is shown. */
export function sorted(problem: Problem | null): Sorted {
  const found: Sorted = { fields: {}, marks: [], rest: [] };
  for (const each of problem?.fields ?? []) {
    const name = FIELDS.find((name) => each.field.split(/[.[]/, 1)[0] === name);
    if (each.line) {
      const message = each.field === "workflow" ? each.message : `${each.field}: ${each.message}`;
      found.marks.push({ line: each.line, column: each.column ?? 1, message });
    } else if (name)
      found.fields[name] ??= name === each.field ? each.message : `${each.field}: ${each.message}`;
    else found.rest.push(each);
  }
  return found;
}
