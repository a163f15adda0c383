/** The time ranges of a list. In the URL they are relative, so that they mean the same tomorrow. */
export const SPANS = { "1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 } as const;
export type Span = keyof typeof SPANS;
export const SPAN_NAMES = Object.keys(SPANS) as Span[];

export function spanOf(query: URLSearchParams): Span | null {
  const given = query.get("since");
  return SPAN_NAMES.find((each) => each === given) ?? null;
}

/** When the range of the URL begins, in seconds; null: it has none. */
export function sinceOf(query: URLSearchParams, now: number): number | null {
  const span = spanOf(query);
  return span && Math.floor(now) - SPANS[span];
}
