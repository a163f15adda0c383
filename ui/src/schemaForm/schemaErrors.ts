/** What a JSON Schema says of a value. */
import { type Schema as AnySchema, type OutputUnit, Validator } from "@cfworker/json-schema";
import type { Json, Schema } from "./json";

/** A regular expression may take years to match. After this time the gateway alone decides. */
const LIMIT_MS = 1000;

export interface Check {
  value: Json;
  schema: Schema;
}

/** In another thread if the schema has regular expressions: they must not block the page. */
export function schemaErrors(check: Check): Promise<OutputUnit[]> {
  const hasPattern = JSON.stringify(check.schema).includes('"pattern');
  return hasPattern && typeof Worker !== "undefined"
    ? errorsInWorker(check)
    : Promise.resolve(errorsOf(check));
}

export function errorsOf({ value, schema }: Check): OutputUnit[] {
  try {
    return new Validator(schema as AnySchema | boolean, "2020-12", false).validate(value).errors;
  } catch {
    // For example a pattern that is invalid in JavaScript.
    return [];
  }
}

function errorsInWorker(check: Check): Promise<OutputUnit[]> {
  const worker = new Worker(new URL("./schemaWorker.ts", import.meta.url), { type: "module" });
  return new Promise((resolve) => {
    const end = (errors: OutputUnit[]) => {
      clearTimeout(timer);
      worker.terminate();
      resolve(errors);
    };
    const timer = setTimeout(() => end([]), LIMIT_MS);
    worker.onmessage = ({ data }: MessageEvent<OutputUnit[]>) => end(data);
    worker.onerror = () => end([]);
    worker.postMessage(check);
  });
}
