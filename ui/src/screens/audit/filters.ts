/** The filters of the audit log in the URL. */
import type { QueryPatch } from "../../app/router";
import { type AuditFilter, OUTCOMES } from "../../audit/auditApi";

/** Filters that can be typed into the search field: `actor:ann`. */
export const WORDS = ["actor", "action", "target", "run_id"] as const;
type Word = (typeof WORDS)[number];
const isWord = (name: string): name is Word => WORDS.some((each) => each === name);

export const SPANS = { "1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 } as const;
export type Span = keyof typeof SPANS;

export function spanOf(query: URLSearchParams): Span | null {
  const given = query.get("since");
  return (Object.keys(SPANS) as Span[]).find((each) => each === given) ?? null;
}

/** For the API; `since` is relative in the URL, so that it means the same tomorrow. */
export function apiFilter(query: URLSearchParams, now: number): AuditFilter {
  const filter: AuditFilter = {};
  for (const name of WORDS) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  filter.outcome = OUTCOMES.find((each) => each === query.get("outcome"));
  const span = spanOf(query);
  if (span) filter.since = Math.floor(now) - SPANS[span];
  return filter;
}

/** Typed words such as `actor:ann` become filters; the rest names a target. */
export function parseTyped(text: string): QueryPatch {
  const patch: QueryPatch = {};
  const rest = text.replace(/(?:^|\s)(\w+):(?:"([^"]+)"|(\S+))/g, (whole, name: string, quoted, plain) => {
    const value: string = quoted ?? plain;
    if (name === "run") patch.run_id = value;
    else if (isWord(name)) patch[name] = value;
    else return whole;
    return " ";
  });
  const target = rest.trim().replace(/\s+/g, " ");
  return { ...patch, ...(target && { target }), cursor: null };
}

export const NO_FILTERS: QueryPatch = Object.fromEntries(
  ["since", "cursor", "outcome", ...WORDS].map((name) => [name, null]),
);
