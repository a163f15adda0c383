/** Pages of the list. The first one is requested when this module loads, before the first render. */
import { apiKey } from "../../api/apiKey";
import { type Schemas, send } from "../../api/client";
import { wantsApiKey } from "../../app/pageConfig";
import { apiFilter, type Ordering, orderingOf } from "./filters";

const FIRST = 100;
const FURTHER = 200;

let begun: { url: string; answer: Promise<Response> } | null = null;

export function begin(query: URLSearchParams): void {
  if (wantsApiKey && !apiKey.get()) return;
  const url = urlOf(apiFilter(query, Date.now() / 1000).toString(), orderingOf(query), null);
  const answer = send(request(url));
  answer.catch(() => undefined);
  begun = { url, answer };
}

export async function readPage(
  filter: string,
  ordering: Ordering,
  cursor: string | null,
  signal: AbortSignal,
): Promise<{ page: Schemas["RunPage"]; revision: string | null }> {
  const url = urlOf(filter, ordering, cursor);
  const early = begun?.url === url ? begun.answer : null;
  begun = null;
  const answer = await (early ?? send(request(url, signal)));
  signal.throwIfAborted();
  return { page: await answer.json(), revision: answer.headers.get("X-Pyoco-Revision") };
}

const request = (url: string, signal?: AbortSignal) => new Request(new URL(url, location.origin), { signal });

function urlOf(filter: string, ordering: Ordering, cursor: string | null): string {
  const query = new URLSearchParams(filter);
  query.set("sort", ordering.sort);
  query.set("order", ordering.ascending ? "asc" : "desc");
  query.set("limit", String(cursor ? FURTHER : FIRST));
  query.set("paged", "true");
  query.set("include", "params");
  if (cursor) query.set("cursor", cursor);
  return `/runs?${query}`;
}
