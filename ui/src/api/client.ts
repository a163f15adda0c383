/** The gateway's API, typed by its OpenAPI document. Failures are thrown as a `Problem`. */
import createClient from "openapi-fetch";
import { apiKeyHeader } from "../app/pageConfig";
import { currentLanguage } from "../i18n/language";
import { apiKey } from "./apiKey";
import { recordResponse, recordStreamChunks, recordUnreachable } from "./connection";
import { Problem } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

export function requestHeaders(): Record<string, string> {
  const key = apiKey.get();
  return { "Accept-Language": currentLanguage(), ...(key && { [apiKeyHeader]: key }) };
}

/** `fetch` with the key and the language of this tab; failures are thrown as a `Problem`. */
export async function send(request: Request): Promise<Response> {
  for (const [name, value] of Object.entries(requestHeaders())) request.headers.set(name, value);
  let answer: Response;
  try {
    answer = await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    recordUnreachable();
    throw Problem.unreachable();
  }
  // A proxy answers for a gateway that it does not reach.
  if (answer.status === 502 || answer.status === 504) recordUnreachable();
  else recordResponse();
  if (!answer.ok) throw await Problem.of(answer);
  return recordStreamChunks(answer);
}

export const api = createClient<paths>({ baseUrl: location.origin, fetch: send });

/** `body<Schemas["WorkerPatch"]>({ paused: true })`: fields with a default may be omitted. */
export const body = <T>(given: Partial<T>): T => given as T;

/** A browser sends no header of its own with a WebSocket: the key is offered as a protocol. */
export function socketProtocols(): string[] {
  const key = apiKey.get();
  return ["pyoco-server", ...(key ? [`pyoco-key.${key}`] : [])];
}
