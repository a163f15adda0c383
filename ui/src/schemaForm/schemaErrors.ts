/** What a JSON Schema says of a value, in time. */
import type { OutputUnit } from "@cfworker/json-schema";
import { type Check, errorsOf, newThread } from "./schemaWorker";

/** A regular expression may take years to match. After this time the gateway alone decides. */
const LIMIT_MS = 1000;

/** In another thread if the schema has regular expressions: they must not block the page. */
export function schemaErrors(check: Check): Promise<OutputUnit[]> {
  const hasPattern = JSON.stringify(check.schema).includes('"pattern');
  return hasPattern && typeof Worker !== "undefined"
    ? errorsInThread(check)
    : Promise.resolve(errorsOf(check));
}

function errorsInThread(check: Check): Promise<OutputUnit[]> {
  const thread = newThread();
  return new Promise((resolve) => {
    const end = (errors: OutputUnit[]) => {
      clearTimeout(timer);
      thread.terminate();
      resolve(errors);
    };
    const timer = setTimeout(() => end([]), LIMIT_MS);
    thread.onmessage = ({ data }: MessageEvent<OutputUnit[]>) => end(data);
    thread.onerror = () => end([]);
    thread.postMessage(check);
  });
}
