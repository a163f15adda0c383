/** The filters of schedules in the URL. */
import type { QueryPatch } from "../../app/router";
import { extractFilters } from "../../ui/searchFilters";

/** Filters with one value, which can be typed into the search field: `flow:etl`. */
export const WORDS = ["flow", "tag"] as const;
export const STATES = ["active", "paused"] as const;
export type State = (typeof STATES)[number] | "any";

export const NO_FILTERS: QueryPatch = { q: null, flow: null, tag: null, state: null, cursor: null };
const PAGE = 100;

export const stateOf = (query: URLSearchParams): State =>
  STATES.find((each) => each === query.get("state")) ?? "any";

export const isFiltered = (query: URLSearchParams): boolean =>
  ["q", ...WORDS].some((name) => query.get(name)) || stateOf(query) !== "any";

/** The query for the API. */
export function apiQuery(query: URLSearchParams): URLSearchParams {
  const asked = new URLSearchParams({ limit: String(PAGE) });
  for (const name of ["q", ...WORDS, "cursor"]) {
    const value = query.get(name);
    if (value) asked.set(name, value);
  }
  const state = stateOf(query);
  if (state !== "any") asked.set("paused", String(state === "paused"));
  return asked;
}

/** Typed words such as `flow:etl` become filters, the rest is a text search. */
export function parseTyped(text: string): QueryPatch {
  const patch: QueryPatch = { cursor: null };
  const rest = extractFilters(text, (name, value) => {
    const isWord = WORDS.some((each) => each === name);
    if (isWord) patch[name] = value;
    return isWord;
  });
  return { ...patch, q: rest || null };
}
