/** What a JSON Schema says of a value: called by the page, or in a thread of its own. Both load this file. */
import { type Schema as AnySchema, type OutputUnit, Validator } from "@cfworker/json-schema";
import type { Json, Schema } from "./json";

export interface Check {
  value: Json;
  schema: Schema;
}

export function errorsOf({ value, schema }: Check): OutputUnit[] {
  try {
    return new Validator(schema as AnySchema | boolean, "2020-12", false).validate(value).errors;
  } catch {
    // For example a pattern that is invalid in JavaScript.
    return [];
  }
}

export const newThread = () => new Worker(import.meta.url, { type: "module" });

const isThread = typeof document === "undefined";
if (isThread) self.onmessage = ({ data }: MessageEvent<Check>) => self.postMessage(errorsOf(data));
