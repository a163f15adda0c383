/** The request that the form of an operation describes: to send it, and as a curl command. */
import { quoted } from "../../lib/commands";
import { FORM_TYPE, JSON_TYPE, type Operation, type Parameter } from "./document";

/** What was entered: parameters by place and name, the body as JSON, and the fields of a form. */
export interface Entered {
  parameters: Record<string, string>;
  body: string;
  fields: Record<string, string>;
  files: Record<string, File>;
}

export const NOTHING: Entered = { parameters: {}, body: "", fields: {}, files: {} };

export const keyOf = ({ in: place, name }: Pick<Parameter, "in" | "name">): string => `${place}:${name}`;

const isGiven = (value: string | undefined): value is string => value !== undefined && value !== "";

/** The path parameters that have no value. */
export const missing = (operation: Operation, entered: Entered): string[] =>
  operation.parameters
    .filter((each) => each.in === "path" && !isGiven(entered.parameters[keyOf(each)]))
    .map(({ name }) => name);

export function urlOf(operation: Operation, entered: Entered, origin: string): string {
  const query = new URLSearchParams();
  let path = operation.path;
  for (const parameter of operation.parameters) {
    const value = entered.parameters[keyOf(parameter)];
    if (!isGiven(value)) continue;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    if (parameter.in === "query") query.append(parameter.name, value);
  }
  const search = query.toString();
  return `${origin}${path}${search && `?${search}`}`;
}

function headersOf(operation: Operation, entered: Entered): [string, string][] {
  const given = operation.parameters.flatMap((parameter): [string, string][] => {
    const value = entered.parameters[keyOf(parameter)];
    return parameter.in === "header" && isGiven(value) ? [[parameter.name, value]] : [];
  });
  return operation.body?.type === JSON_TYPE && entered.body.trim()
    ? [["Content-Type", JSON_TYPE], ...given]
    : given;
}

export function requestOf(operation: Operation, entered: Entered, origin: string): Request {
  return new Request(urlOf(operation, entered, origin), {
    method: operation.method,
    headers: headersOf(operation, entered),
    body: bodyOf(operation, entered),
    cache: "no-store",
  });
}

function bodyOf(operation: Operation, entered: Entered): BodyInit | undefined {
  if (operation.body?.type !== FORM_TYPE)
    return operation.body && entered.body.trim() ? entered.body : undefined;
  const form = new FormData();
  for (const [name, value] of Object.entries(entered.fields)) if (isGiven(value)) form.append(name, value);
  for (const [name, file] of Object.entries(entered.files)) form.append(name, file);
  return form;
}

/** For a POSIX shell. The key is not part of it: a command ends up in the history of the shell. */
export function curlOf(
  operation: Operation,
  entered: Entered,
  origin: string,
  keyHeader: string | null,
): string {
  const parts = [
    `curl${operation.method === "GET" ? "" : ` -X ${operation.method}`} ${quoted(urlOf(operation, entered, origin))}`,
  ];
  if (keyHeader !== null) parts.push(`-H "${keyHeader}: $PYOCO_API_KEY"`);
  for (const [name, value] of headersOf(operation, entered)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (operation.body?.type === FORM_TYPE) {
    for (const [name, value] of Object.entries(entered.fields))
      if (isGiven(value)) parts.push(`-F ${quoted(`${name}=${value}`)}`);
    for (const [name, file] of Object.entries(entered.files))
      parts.push(`-F ${quoted(`${name}=@${file.name}`)}`);
  } else if (operation.body && entered.body.trim()) parts.push(`-d ${quoted(entered.body)}`);
  return parts.join(" \\\n  ");
}
