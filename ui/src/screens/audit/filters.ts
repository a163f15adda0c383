/** The filters of the audit log in the URL. */
import type { QueryPatch } from "../../app/router";
import { type AuditFilter, OUTCOMES } from "../../audit/auditApi";
import { extractFilters } from "../../ui/searchFilters";
import { sinceOf } from "../../ui/timeRanges";

/** Filters that can be typed into the search field: `actor:ann`. */
export const WORDS = ["actor", "action", "target", "run_id"] as const;
type Word = (typeof WORDS)[number];
const isWord = (name: string): name is Word => WORDS.some((each) => each === name);

/** For the API; `since` is relative in the URL, so that it means the same tomorrow. */
export function apiFilter(query: URLSearchParams, now: number): AuditFilter {
  const filter: AuditFilter = {};
  for (const name of WORDS) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  filter.outcome = OUTCOMES.find((each) => each === query.get("outcome"));
  const since = sinceOf(query, now);
  if (since !== null) filter.since = since;
  return filter;
}

/** Typed words such as `actor:ann` become filters; the rest names a target. */
export function parseTyped(text: string): QueryPatch {
  const patch: QueryPatch = {};
  const target = extractFilters(text, (name, value) => {
    if (name === "run") patch.run_id = value;
    else if (isWord(name)) patch[name] = value;
    else return false;
    return true;
  });
  return { ...patch, ...(target && { target }), cursor: null };
}

export const NO_FILTERS: QueryPatch = Object.fromEntries(
  ["since", "cursor", "outcome", ...WORDS].map((name) => [name, null]),
);
