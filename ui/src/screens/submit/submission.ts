/** From what was typed to a request, and from the gateway's words back to the place they speak of. */
import type { FieldProblem, Problem } from "../../api/problem";
import type { Draft } from "./draft";
import { wrongPosition } from "./jsonPosition";

export interface RunBody {
  flow_name: string;
  params: Record<string, unknown>;
  tag?: string;
  tags?: string[];
  timeout_sec?: number;
}

/** A place in a text, counted from 1. */
export interface Place {
  line: number;
  column: number;
}

export interface Mark extends Place {
  message: string;
}

/** The params, or where they stop being JSON (null: they are, but no object). */
export type Parsed = { value: Record<string, unknown> } | { place: Place | null };

/** Params have to be a JSON object; nothing at all is an empty one. */
export function parseParams(text: string): Parsed {
  if (text.trim() === "") return { value: {} };
  const wrong = wrongPosition(text);
  if (wrong !== null) return { place: placeAt(text, wrong) };
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { place: null };
  return { value: value as Record<string, unknown> };
}

function placeAt(text: string, position: number): Place {
  const lines = text.slice(0, position).split("\n");
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

export const tagsIn = (text: string): string[] =>
  text
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);

export function runBody(draft: Draft, params: Record<string, unknown>): RunBody {
  const tags = tagsIn(draft.tags);
  return {
    flow_name: draft.flowName.trim(),
    params,
    ...(draft.tag.trim() && { tag: draft.tag.trim() }),
    ...(tags.length > 0 && { tags }),
    ...(draft.timeoutSec.trim() && { timeout_sec: Number(draft.timeoutSec) }),
  };
}

export function yamlForm(draft: Draft): FormData {
  const form = new FormData();
  form.set("flow_name", draft.flowName.trim());
  if (draft.tag.trim()) form.set("tag", draft.tag.trim());
  if (draft.timeoutSec.trim()) form.set("timeout_sec", draft.timeoutSec.trim());
  form.set("workflow", new Blob([draft.yaml], { type: "application/yaml" }), "flow.yaml");
  return form;
}

export const FIELDS = ["flow_name", "tag", "tags", "timeout_sec", "params"] as const;
export type FieldName = (typeof FIELDS)[number];

export interface Sorted {
  /** What is wrong with each field of the form. */
  fields: Partial<Record<FieldName, string>>;
  /** What is wrong at a place of the flow.yaml. */
  marks: Mark[];
  /** What belongs to neither. */
  rest: FieldProblem[];
}

/** Each thing that the gateway found wrong, to where it is shown. */
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
