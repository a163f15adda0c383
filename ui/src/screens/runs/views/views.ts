/** Views: a named filter, order and columns of the list, which are all in the URL. Pure functions. */
import type { Schemas } from "../../../api/client";
import { spanOf } from "../../../ui/timeRanges";
import { columnsIn } from "../columnNames";
import { FURTHER, isOneOf, MOMENTS, orderingOf, SORTS, WORDS } from "../filters";

export type SharedView = Schemas["ViewView"];
export type ViewContent = Pick<Schemas["ViewRequest"], "filter" | "sort" | "order" | "columns">;

/** A view that only this browser has. */
export interface OwnView {
  name: string;
  query: string;
}

export const BUILT_IN = {
  all: "",
  active: "status=PENDING&status=RUNNING&status=WAITING_HUMAN&status=WAITING&status=CANCELLING",
  failed: "status=FAILED&since=24h",
  slow: "sort=duration&order=desc",
} as const;
export type BuiltIn = keyof typeof BUILT_IN;

/** What a URL shows, in one way of writing it: two URLs of the same list are equal. */
export function contentOf(query: URLSearchParams): string {
  const content = new URLSearchParams();
  for (const status of [...new Set(query.getAll("status"))].sort()) content.append("status", status);
  for (const name of [...WORDS, ...FURTHER, ...MOMENTS, "q"]) {
    const value = query.get(name);
    if (value) content.set(name, value);
  }
  const since = spanOf(query);
  if (since) content.set("since", since);
  const { sort, ascending } = orderingOf(query);
  if (sort !== "updated_at" || ascending) {
    content.set("sort", sort);
    content.set("order", ascending ? "asc" : "desc");
  }
  const columns = columnsIn(query);
  if (columns) content.set("columns", columns.join(","));
  return content.toString();
}

/** The URL of a shared view. */
export function queryOf({ filter, sort, order, columns }: SharedView): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (Array.isArray(value)) for (const each of value) query.append(name, each);
    else if (value != null) query.set(name, String(value));
  }
  query.set("sort", sort);
  query.set("order", order);
  if (columns.length > 0) query.set("columns", columns.join(","));
  return new URLSearchParams(contentOf(query));
}

/** What the API stores of a URL. */
export function requestOf(query: URLSearchParams): ViewContent {
  const text = (name: string) => query.get(name) || null;
  const { sort, ascending } = orderingOf(query);
  const words = Object.fromEntries([...WORDS, ...FURTHER, "q"].map((name) => [name, text(name)]));
  const moments = MOMENTS.filter((name) => text(name)).map((name) => [name, Number(text(name))] as const);
  return {
    filter: {
      status: query.getAll("status"),
      since: spanOf(query),
      ...words,
      ...Object.fromEntries(moments),
    } as ViewContent["filter"],
    sort: isOneOf(SORTS, sort) ? sort : "updated_at",
    order: ascending ? "asc" : "desc",
    columns: [...(columnsIn(query) ?? [])] as ViewContent["columns"],
  };
}

/** A URL that opens the view as it is then, whatever is changed until then. */
export const LINK = "open";
