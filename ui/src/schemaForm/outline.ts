/** A one-line outline of a value, for JSON input. */
import { jsonText } from "../lib/exactJson";
import { type Schema, same } from "./json";
import { isParts, type Parts, resolved, text } from "./references";

/** One accepted kind of value. */
export interface ValueKind {
  /** Such as `{"amount": number, "note"?: string}`. */
  outline: string;
  title?: string;
  description?: string;
}

const DEEPEST = 2;
const MOST_MEMBERS = 8;
const MORE = "…";

/** The alternatives of a schema, or its only kind of value; empty: unknown. */
export function valueKinds(parts: Parts, root: Schema): ValueKind[] {
  const alternatives = (parts.oneOf ?? parts.anyOf) as Schema[] | undefined;
  if (!alternatives?.length) {
    const outline = outlineOf(parts, root);
    return outline === MORE ? [] : [{ outline }];
  }
  return alternatives
    .map((each) => resolved(each, root))
    .map((each) => ({
      outline: outlineOf(each, root),
      ...(text(each.title) && { title: text(each.title) }),
      ...(text(each.description) && { description: text(each.description) }),
    }))
    .filter((each, at, all) => all.findIndex((other) => same(other, each)) === at);
}

function outlineOf(parts: Parts, root: Schema, depth = 0): string {
  const inner = (schema: unknown) => outlineOf(resolved(schema as Schema, root), root, depth + 1);
  const several = (values: readonly unknown[], written: (value: unknown) => string) =>
    limited(values.map(written)).join(" | ");
  if (parts.const !== undefined) return jsonText(parts.const);
  if (Array.isArray(parts.enum)) return several(parts.enum, (value) => jsonText(value));
  if (depth > DEEPEST) return MORE;
  const alternatives = parts.oneOf ?? parts.anyOf;
  if (Array.isArray(alternatives)) return several(alternatives, inner);
  if (Array.isArray(parts.type)) return several(parts.type, String);
  if (parts.type === "object" || isParts(parts.properties)) return objectOutline(parts, inner);
  if (parts.type === "array") return listOutline(parts, inner);
  return text(parts.type) ?? MORE;
}

function objectOutline(parts: Parts, inner: (schema: unknown) => string): string {
  const required = Array.isArray(parts.required) ? parts.required : [];
  const members = Object.entries(isParts(parts.properties) ? parts.properties : {}).map(
    ([name, schema]) => `${JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${inner(schema)}`,
  );
  if (isParts(parts.additionalProperties)) members.push(`${MORE}: ${inner(parts.additionalProperties)}`);
  return `{${limited(members).join(", ")}}`;
}

function listOutline(parts: Parts, inner: (schema: unknown) => string): string {
  if (Array.isArray(parts.prefixItems)) return `[${limited(parts.prefixItems.map(inner)).join(", ")}]`;
  return isParts(parts.items) ? `[${inner(parts.items)}, ${MORE}]` : `[${MORE}]`;
}

const limited = (pieces: readonly string[]): readonly string[] =>
  pieces.length > MOST_MEMBERS ? [...pieces.slice(0, MOST_MEMBERS), MORE] : pieces;
