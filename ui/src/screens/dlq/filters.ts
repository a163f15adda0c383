/** The filters of dead letters in the URL. */
import type { QueryPatch } from "../../app/router";
import { extractFilters } from "../../ui/searchFilters";
import { sinceOf } from "../../ui/timeRanges";

export const REASONS = [
  "execution_error",
  "timeout",
  "human_timeout",
  "human_withdrawn",
  "flow_not_found",
  "invalid_job",
  "executor_crashed",
  "deliveries_exhausted",
  "cancel_forced",
  "unreadable",
] as const;
export type Reason = (typeof REASONS)[number];
export const isReason = (word: string): word is Reason => REASONS.some((each) => each === word);

/** Filters with one value, which can be typed into the search field: `flow:etl`. */
export const WORDS = ["flow", "tag", "worker", "run_id"] as const;
export type Word = (typeof WORDS)[number];
const isWord = (name: string): name is Word => WORDS.some((each) => each === name);

/** A filter for the API; `since` is relative in the URL, so that it means the same tomorrow. */
export interface LetterFilter {
  state?: "open" | "closed";
  /** The numbers of letters, separated by commas. */
  seq?: string;
  reason?: string;
  flow?: string;
  tag?: string;
  worker?: string;
  run_id?: string;
  since?: number;
  q?: string;
}

/** Closed letters need nobody: the rerun of their run has completed. */
export const STATES = ["open", "closed", "all"] as const;
export type LetterState = (typeof STATES)[number];

export function stateOf(query: URLSearchParams): LetterState {
  const given = query.get("state");
  return STATES.find((each) => each === given) ?? "open";
}

/** The letters with these numbers, whatever their state. */
export const chosenFilter = (letters: readonly { seq: number }[]): LetterFilter => ({
  seq: letters.map(({ seq }) => seq).join(","),
});

export function apiFilter(query: URLSearchParams, now: number): LetterFilter {
  const filter: LetterFilter = {};
  const state = stateOf(query);
  if (state !== "all") filter.state = state;
  const reasons = query.getAll("reason");
  if (reasons.length > 0) filter.reason = reasons.join(",");
  for (const name of [...WORDS, "q"] as const) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  const since = sinceOf(query, now);
  if (since !== null) filter.since = since;
  return filter;
}

/** Typed words such as `flow:etl` become filters, the rest is a text search. */
export function parseTyped(text: string): QueryPatch {
  const patch: QueryPatch = {};
  const rest = extractFilters(text, (name, value) => {
    if (name === "reason") patch.reason = value.split(",");
    else if (name === "run") patch.run_id = value;
    else if (isWord(name)) patch[name] = value;
    else return false;
    return true;
  });
  // A changed filter starts at the first page.
  return { ...patch, q: rest || null, cursor: null };
}

export const NO_FILTERS: QueryPatch = Object.fromEntries(
  ["reason", "q", "since", "cursor", ...WORDS].map((name) => [name, null]),
);
