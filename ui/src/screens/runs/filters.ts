/** The filters and the order of the list in the URL. */
import type { QueryPatch } from "../../app/router";
import { extractFilters } from "../../ui/searchFilters";
import { sinceOf } from "../../ui/timeRanges";

/** Filters with one value, which can be typed into the search field: `flow:etl`. */
export const WORDS = ["flow", "tag", "worker", "origin", "cause"] as const;
export type Word = (typeof WORDS)[number];
/** What can be typed before a colon; a label is found as a tag is. */
export const TYPED = ["flow", "status", "tag", "label", "worker", "cause", "origin"] as const;
export type Typed = (typeof TYPED)[number];
/** Further filters of the API that a link may contain. */
export const FURTHER = ["workflow_yaml_sha256"] as const;
export const MOMENTS = ["updated_after", "updated_before", "submitted_after", "submitted_before"] as const;
export const SORTS = [
  "updated_at",
  "submitted_at",
  "start_time",
  "end_time",
  "duration",
  "flow_name",
  "status",
] as const;
export type Sort = (typeof SORTS)[number];
export interface Ordering {
  sort: Sort;
  ascending: boolean;
}

export const isOneOf = <T extends string>(words: readonly T[], word: string | null): word is T =>
  words.some((each) => each === word);

/** Whether it is a time that can be shown: the last one of a `Date` is in the year 275760. */
export const isMoment = (seconds: string): boolean => Math.abs(Number(seconds)) <= 8.64e12;

export function orderingOf(query: URLSearchParams): Ordering {
  const sort = query.get("sort");
  return { sort: isOneOf(SORTS, sort) ? sort : "updated_at", ascending: query.get("order") === "asc" };
}

/** The filters for the API. `since` is relative, so that a saved view means the same tomorrow. */
export function apiFilter(query: URLSearchParams, now: number): URLSearchParams {
  const filter = new URLSearchParams();
  for (const name of ["status", ...WORDS, ...FURTHER, ...MOMENTS, "q"])
    for (const value of query.getAll(name)) if (value) filter.append(name, value);
  const since = sinceOf(query, now);
  if (since !== null) filter.set("updated_after", String(since));
  return filter;
}

/** Typed words such as `flow:etl` become filters, the rest is a text search. */
export function parseTyped(text: string): QueryPatch {
  const patch: QueryPatch = {};
  const rest = extractFilters(text, (name, value) => {
    if (name === "status") patch.status = value.toUpperCase().split(",");
    else if (name === "label") patch.tag = value;
    else if (isOneOf(WORDS, name)) patch[name] = value;
    else return false;
    return true;
  });
  return { ...patch, q: rest || null };
}
