/** Converts a JSON Schema to form fields, with JSON input for what no field supports. */
import { ExactNumber, jsonText } from "../lib/exactJson";
import { isObject, type Json, type Schema } from "./json";
import { type ValueKind, valueKinds } from "./outline";
import { isParts, type Parts, resolved, text } from "./references";

export interface Choice {
  value: Json;
  label: string;
  hint?: string;
}

type TextKind = "text" | "multiline" | "email" | "url" | "date" | "date-time";

/** A text if it has more digits than a number keeps. */
type Bound = number | string;

export type Shape =
  | { kind: "text"; as: TextKind; maxLength?: number }
  | { kind: "number"; integer: boolean; min?: Bound; max?: Bound; above?: Bound; below?: Bound }
  | { kind: "boolean" }
  | { kind: "choice"; choices: Choice[] }
  | { kind: "several"; choices: Choice[] }
  | { kind: "list"; item: Field; most?: number }
  | { kind: "object"; fields: NamedField[] }
  | { kind: "json"; takes?: ValueKind[] };

export interface Field {
  shape: Shape;
  title?: string;
  description?: string;
  /** The initial value. */
  initial?: Json;
  /** The only allowed value. */
  only?: Json;
  nullable: boolean;
}

export interface NamedField extends Field {
  name: string;
  required: boolean;
}

const DEEPEST = 6;
const LONG_TEXT = 160;
const MULTILINE_FORMATS = new Set(["multiline", "textarea", "markdown"]);
const TEXT_FORMATS: Record<string, TextKind> = {
  email: "email",
  uri: "url",
  url: "url",
  date: "date",
  "date-time": "date-time",
};

export function fieldOf(schema: Schema, root: Schema = schema, depth = 0): Field {
  const parts = resolved(schema, root);
  const nullable = takesNull(parts, root);
  const plain = nullable ? withoutNull(parts, root) : parts;
  const initial = parts.default ?? plain.default;
  return {
    shape: withOutline(depth > DEEPEST ? { kind: "json" } : shapeOf(plain, root, depth), plain, root),
    title: text(parts.title) ?? text(plain.title),
    description: text(parts.description) ?? text(plain.description),
    ...(initial !== undefined && { initial: initial as Json }),
    ...(plain.const !== undefined && { only: plain.const as Json }),
    nullable,
  };
}

/** The expected form of the JSON. */
function withOutline(shape: Shape, parts: Parts, root: Schema): Shape {
  const takes = shape.kind === "json" ? valueKinds(parts, root) : [];
  return takes.length > 0 ? { kind: "json", takes } : shape;
}

function shapeOf(parts: Parts, root: Schema, depth: number): Shape {
  const choices = choicesOf(parts, root);
  if (choices) return { kind: "choice", choices };
  if (parts.anyOf || parts.oneOf || parts.if || parts.not) return { kind: "json" };
  switch (typeOf(parts)) {
    case "boolean":
      return { kind: "boolean" };
    case "string":
      return { kind: "text", as: textKind(parts), maxLength: number(parts.maxLength) };
    case "integer":
    case "number":
      return {
        kind: "number",
        integer: parts.type === "integer",
        min: bound(parts.minimum),
        max: bound(parts.maximum),
        above: bound(parts.exclusiveMinimum),
        below: bound(parts.exclusiveMaximum),
      };
    case "array":
      return listOf(parts, root, depth);
    case "object":
      return objectOf(parts, root, depth);
    default:
      return { kind: "json" };
  }
}

function objectOf(parts: Parts, root: Schema, depth: number): Shape {
  if (!isParts(parts.properties) || Object.keys(parts.properties).length === 0) return { kind: "json" };
  const required = Array.isArray(parts.required) ? parts.required : [];
  return {
    kind: "object",
    fields: Object.entries(parts.properties).map(([name, schema]) => ({
      ...fieldOf(schema as Schema, root, depth + 1),
      name,
      required: required.includes(name),
    })),
  };
}

function listOf(parts: Parts, root: Schema, depth: number): Shape {
  const { items } = parts;
  if (parts.prefixItems || items === undefined || typeof items === "boolean") return { kind: "json" };
  const item = fieldOf(items as Schema, root, depth + 1);
  if (item.shape.kind === "choice" && parts.uniqueItems === true)
    return { kind: "several", choices: item.shape.choices };
  return { kind: "list", item, most: number(parts.maxItems) };
}

function choicesOf(parts: Parts, root: Schema): Choice[] | null {
  if (Array.isArray(parts.enum)) return parts.enum.map((value: Json) => ({ value, label: labelOf(value) }));
  if (parts.const !== undefined) return [{ value: parts.const as Json, label: labelOf(parts.const) }];
  const named = (parts.oneOf ?? parts.anyOf) as Schema[] | undefined;
  if (!named?.length) return null;
  const each = named.map((schema) => resolved(schema, root));
  if (!each.every((one) => one.const !== undefined)) return null;
  return each.map((one) => ({
    value: one.const as Json,
    label: text(one.title) ?? labelOf(one.const),
    hint: text(one.description),
  }));
}

export const labelOf = (value: unknown): string => (typeof value === "string" ? value : jsonText(value));

function typeOf(parts: Parts): unknown {
  if (parts.type !== undefined) return parts.type;
  return isParts(parts.properties) ? "object" : undefined;
}

function textKind(parts: Parts): TextKind {
  const format = text(parts.format) ?? "";
  const media = text(parts.contentMediaType) ?? "";
  const isLong = (number(parts.maxLength) ?? 0) > LONG_TEXT || (number(parts.minLength) ?? 0) > LONG_TEXT;
  if (MULTILINE_FORMATS.has(format) || media.startsWith("text/") || isLong) return "multiline";
  return TEXT_FORMATS[format] ?? "text";
}

const isNull = (schema: Schema, root: Schema) => resolved(schema, root).type === "null";
const alternatives = (parts: Parts) => (parts.anyOf ?? parts.oneOf) as Schema[] | undefined;

function takesNull(parts: Parts, root: Schema): boolean {
  if (Array.isArray(parts.type)) return parts.type.includes("null") && parts.type.length === 2;
  return alternatives(parts)?.some((each) => isNull(each, root)) ?? false;
}

function withoutNull(parts: Parts, root: Schema): Parts {
  if (Array.isArray(parts.type)) return { ...parts, type: parts.type.find((each) => each !== "null") };
  const rest = alternatives(parts)?.filter((each) => !isNull(each, root)) ?? [];
  const { anyOf, oneOf, ...own } = parts;
  if (rest.length !== 1) return { ...own, anyOf: rest };
  const { default: _, ...around } = own;
  return { ...resolved(rest[0] ?? true, root), ...around };
}

const number = (value: unknown) => (typeof value === "number" ? value : undefined);
const bound = (value: unknown): Bound | undefined =>
  value instanceof ExactNumber ? value.source : number(value);

/** The initial value of a form: defaults and required objects only. */
export function initialOf({ shape, initial, only, nullable }: Field): Json | undefined {
  if (initial !== undefined) return initial;
  // A single allowed value needs no choice, if the value is required.
  if (only !== undefined && !nullable) return only;
  if (shape.kind === "list" || shape.kind === "several") return [];
  if (shape.kind !== "object") return undefined;
  const members = shape.fields.flatMap((field) => {
    const isWanted = field.required || field.initial !== undefined;
    const value = isWanted ? initialOf(field) : undefined;
    return value === undefined ? [] : [[field.name, value] as const];
  });
  return Object.fromEntries(members);
}

/** A schema for a value without one, so that it can be edited in a form. */
export function schemaLike(value: unknown): Schema {
  if (typeof value === "boolean") return { type: "boolean" };
  if (typeof value === "number" || value instanceof ExactNumber) return { type: "number" };
  if (typeof value === "string")
    return { type: "string", ...((value.includes("\n") || value.length > 80) && { format: "multiline" }) };
  if (Array.isArray(value)) {
    const kinds = new Set(value.map((each) => JSON.stringify(schemaLike(each))));
    return { type: "array", ...(kinds.size === 1 && { items: schemaLike(value[0]) }) };
  }
  if (!isObject(value)) return true;
  const members = Object.entries(value).map(([name, each]) => [name, schemaLike(each)]);
  return { type: "object", properties: Object.fromEntries(members), required: Object.keys(value) };
}

/** Whether a form has a field at this path, which then shows the error. */
export function isShown(field: Field, place: string): boolean {
  if (place === "") return true;
  const [name = "", ...rest] = place.split(".");
  const { shape } = field;
  const inner =
    shape.kind === "object"
      ? shape.fields.find((each) => each.name === name)
      : shape.kind === "list" && /^\d+$/.test(name)
        ? shape.item
        : undefined;
  return inner !== undefined && isShown(inner, rest.join("."));
}
