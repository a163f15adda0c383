/** The parts of a schema with resolved references. */
import { isObject, type Schema } from "./json";

export type Parts = Record<string, unknown>;

/** With its references and its only `allOf` merged; its own keywords take precedence. */
export function resolved(schema: Schema, root: Schema, seen: readonly string[] = []): Parts {
  if (typeof schema === "boolean") return {};
  let parts: Parts = schema;
  if (typeof parts.$ref === "string" && !seen.includes(parts.$ref)) {
    const { $ref, ...own } = parts as { $ref: string } & Parts;
    parts = { ...resolved(at(root, $ref), root, [...seen, $ref]), ...own };
  }
  if (Array.isArray(parts.allOf) && parts.allOf.length === 1) {
    const { allOf, ...own } = parts as { allOf: Schema[] } & Parts;
    parts = { ...resolved(allOf[0] ?? true, root, seen), ...own };
  }
  // What cannot be merged is left to JSON input.
  return parts.allOf ? { title: parts.title, description: parts.description } : parts;
}

/** Resolves a reference within the schema. */
export function at(root: Schema, reference: string): Schema {
  let found: unknown = root;
  for (const part of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    found = isParts(found) || Array.isArray(found) ? (found as Parts)[name] : undefined;
  }
  return isParts(found) || typeof found === "boolean" ? found : true;
}

export const isParts = (value: unknown): value is Parts => isObject(value);
export const text = (value: unknown) => (typeof value === "string" && value ? value : undefined);
