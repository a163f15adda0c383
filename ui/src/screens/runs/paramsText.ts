/** Params in one line: `day=2026-11-17 region=eu`. */
import { jsonText, parseJson } from "../../lib/exactJson";
import { isObject } from "../../schemaForm/json";

/** The length at which the list cuts texts of a run. */
export const CUT_CHARS = 300;

/** What a list shows of params is JSON. A long one is cut, and stays as it is. */
export function paramsText(preview: string): string {
  const params = parsed(preview);
  if (!isObject(params)) return preview.replace(/^\{/, "");
  return Object.entries(params)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : jsonText(value)}`)
    .join("  ");
}

/** The same with a line for each value; null: it was cut. */
export function wholeParams(preview: string): string | null {
  const params = parsed(preview);
  return params === undefined ? null : jsonText(params, 2);
}

function parsed(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    return undefined;
  }
}
