/** The list of runs that was last looked at: the page of a run leads back to it, and to its neighbours. */
import { apiKey } from "../../api/apiKey";
import { storedValue } from "../../lib/store";

export interface ListedRuns {
  /** The query of the list. */
  query: string;
  /** In its order. */
  ids: readonly string[];
}

const MOST = 2_000;
const NONE: ListedRuns = { query: "", ids: [] };
const isListed = (value: unknown): value is ListedRuns =>
  typeof value === "object" &&
  value !== null &&
  "query" in value &&
  typeof value.query === "string" &&
  "ids" in value &&
  Array.isArray(value.ids);

/** For the tab, also after a reload. */
export const listedRuns = storedValue<ListedRuns>(() => sessionStorage, "pyoco.listed-runs", NONE, isListed);
apiKey.subscribe(() => listedRuns.set(NONE));

export const rememberList = (query: URLSearchParams, order: readonly string[]): void =>
  listedRuns.set({ query: query.toString(), ids: order.slice(0, MOST) });

export interface Neighbours {
  previous: string | null;
  next: string | null;
  /** From 1. */
  place: number;
  count: number;
}

/** Null: the run is not in the list. */
export function neighboursOf(id: string, { ids }: ListedRuns): Neighbours | null {
  const at = ids.indexOf(id);
  if (at < 0) return null;
  return { previous: ids[at - 1] ?? null, next: ids[at + 1] ?? null, place: at + 1, count: ids.length };
}
