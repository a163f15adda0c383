/** The operations of an OpenAPI document, as the reference shows them. */
import type { Schema } from "../../schemaForm/json";
import { isParts, type Parts, resolved, text } from "../../schemaForm/references";

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description: string;
  schema: Schema;
}

export interface Content {
  type: string;
  schema: Schema;
}

export interface Answer {
  status: string;
  description: string;
  content: Content[];
}

export interface Operation {
  /** `GET /runs/{run_id}`: unique, and short enough for a URL. */
  id: string;
  method: string;
  path: string;
  group: string;
  text: string;
  parameters: Parameter[];
  body: (Content & { required: boolean }) | null;
  answers: Answer[];
  /** A key needs one of them; none: no key is needed. */
  scopes: string[];
}

export interface Group {
  name: string;
  description: string;
  operations: Operation[];
}

export type Document = Parts;

const METHODS = ["get", "post", "put", "patch", "delete"];
export const JSON_TYPE = "application/json";
export const FORM_TYPE = "multipart/form-data";
export const STREAM_TYPE = "text/event-stream";

/** The groups of the document in its order, each with its operations by path. */
export function groupsOf(document: Document): Group[] {
  const operations = Object.entries(partsOf(document.paths)).flatMap(([path, methods]) =>
    Object.entries(partsOf(methods))
      .filter(([method]) => METHODS.includes(method))
      .map(([method, operation]) => operationOf(method.toUpperCase(), path, partsOf(operation))),
  );
  operations.sort((a, b) => a.path.localeCompare(b.path) || orderOf(a) - orderOf(b));
  const known = listOf(document.tags).map(partsOf);
  const names = new Set([...known.map(({ name }) => String(name)), ...operations.map(({ group }) => group)]);
  return [...names]
    .map((name) => ({
      name,
      description: text(known.find((tag) => tag.name === name)?.description) ?? "",
      operations: operations.filter(({ group }) => group === name),
    }))
    .filter((group) => group.operations.length > 0);
}

const orderOf = ({ method }: Operation): number => METHODS.indexOf(method.toLowerCase());

function operationOf(method: string, path: string, operation: Parts): Operation {
  const [body] = contentsOf(operation.requestBody);
  return {
    id: `${method} ${path}`,
    method,
    path,
    group: String(listOf(operation.tags)[0] ?? ""),
    text: text(operation.description) ?? text(operation.summary) ?? "",
    parameters: listOf(operation.parameters).map((each) => parameterOf(partsOf(each))),
    body: body ? { ...body, required: partsOf(operation.requestBody).required === true } : null,
    answers: Object.entries(partsOf(operation.responses))
      .map(([status, answer]) => ({
        status,
        description: text(partsOf(answer).description) ?? "",
        content: contentsOf(answer),
      }))
      .sort((a, b) => a.status.localeCompare(b.status)),
    scopes: [...new Set(listOf(operation.security).flatMap((way) => Object.values(partsOf(way)).flat()))].map(
      String,
    ),
  };
}

function parameterOf(parameter: Parts): Parameter {
  return {
    name: String(parameter.name),
    in: parameter.in as Parameter["in"],
    required: parameter.required === true,
    description: text(parameter.description) ?? "",
    schema: (parameter.schema ?? true) as Schema,
  };
}

const contentsOf = (carrier: unknown): Content[] =>
  Object.entries(partsOf(partsOf(carrier).content)).map(([type, media]) => ({
    type,
    schema: (partsOf(media).schema ?? true) as Schema,
  }));

/** The groups with only the operations whose method, path or text has every word. */
export function matching(groups: readonly Group[], search: string): Group[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (operation: Operation) => {
    const searched = `${operation.id} ${operation.text}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  };
  return groups
    .map((group) => ({ ...group, operations: group.operations.filter(fits) }))
    .filter((group) => group.operations.length > 0);
}

/** A short name of a schema's type: `string`, `RunItem[]`, `number | null`. */
export function typeName(schema: Schema, document: Document): string {
  if (typeof schema === "boolean") return "any";
  if (typeof schema.$ref === "string") return schema.$ref.split("/").at(-1) ?? "";
  const parts = resolved(schema, document);
  const alternatives = listOf(parts.anyOf ?? parts.oneOf) as Schema[];
  if (alternatives.length > 0)
    return [...new Set(alternatives.map((each) => typeName(each, document)))].join(" | ");
  if (parts.const !== undefined) return JSON.stringify(parts.const);
  if (Array.isArray(parts.enum)) return parts.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (parts.type === "array") {
    const item = isParts(parts.items) ? typeName(parts.items, document) : "any";
    return item.includes(" ") ? `(${item})[]` : `${item}[]`;
  }
  return listOf(parts.type).length > 0 ? listOf(parts.type).join(" | ") : (text(parts.type) ?? "any");
}

/** The choices of a schema with a few values, such as a status; else none. */
export function choicesOf(schema: Schema, document: Document): string[] {
  const parts = resolved(schema, document);
  if (parts.type === "boolean") return ["true", "false"];
  return Array.isArray(parts.enum) ? parts.enum.map(String) : [];
}

/** The objects in a schema whose properties are worth showing: itself, its items, or its alternatives. */
export function objectsIn(schema: Schema, document: Document): Parts[] {
  const parts = resolved(schema, document);
  const inner = [
    ...(listOf(parts.anyOf ?? parts.oneOf) as Schema[]),
    parts.items,
    parts.additionalProperties,
  ];
  const found = inner.filter(isParts).flatMap((each) => objectsIn(each, document));
  const own = isParts(parts.properties) && Object.keys(parts.properties).length > 0 ? [parts] : [];
  // A page and its array lead to the same record.
  return [...own, ...found].filter(
    (each, at, all) => all.findIndex((other) => other.title === each.title) === at,
  );
}

const DEEPEST = 6;

/** A value that the schema describes; with `required`, of the required properties only. */
export function exampleOf(schema: Schema, document: Document, required = false, depth = 0): unknown {
  const parts = resolved(schema, document);
  if (parts.default !== undefined && parts.default !== null) return parts.default;
  if (parts.const !== undefined) return parts.const;
  if (Array.isArray(parts.enum)) return parts.enum[0];
  const inner = (each: Schema) => exampleOf(each, document, required, depth + 1);
  const [first] = listOf(parts.anyOf ?? parts.oneOf) as Schema[];
  if (first !== undefined) return inner(first);
  if (parts.type === "array")
    return isParts(parts.items) && depth < DEEPEST && !required ? [inner(parts.items)] : [];
  if (parts.type === "object" || isParts(parts.properties)) {
    if (depth >= DEEPEST) return {};
    const names = listOf(parts.required);
    const members = Object.entries(partsOf(parts.properties)).filter(
      ([name]) => !required || names.includes(name),
    );
    return Object.fromEntries(members.map(([name, each]) => [name, inner(each as Schema)]));
  }
  return SAMPLES[String(parts.type)] ?? null;
}

const SAMPLES: Record<string, unknown> = { string: "string", integer: 0, number: 0, boolean: true };

const partsOf = (value: unknown): Parts => (isParts(value) ? value : {});
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
