/** The current place: the path after `#`, since paths before it belong to the API. */
import { useMemo, useSyncExternalStore } from "react";

export interface Place {
  path: string;
  query: URLSearchParams;
}
export type QueryPatch = Record<string, string | readonly string[] | null | undefined>;

const listeners = new Set<() => void>();
const notify = () => {
  nameEntry();
  for (const listener of listeners) listener();
};
let named = 0;
const newEntry = () => ({ entry: `${performance.timeOrigin}-${++named}` });
const nameEntry = () => {
  if (!window.history.state?.entry) window.history.replaceState(newEntry(), "");
};
nameEntry();
window.addEventListener("hashchange", notify);
window.addEventListener("popstate", notify);

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};
const currentHash = () => window.location.hash;
const currentEntry = (): string => window.history.state?.entry ?? "";

export function parseHash(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  return { path: path.startsWith("/") ? path : "/", query: new URLSearchParams(query) };
}

/** The `href` of a place: `href("/runs", { status: ["FAILED"] })`. */
export function href(path: string, query: QueryPatch | URLSearchParams = {}): string {
  const search = query instanceof URLSearchParams ? query : patched(new URLSearchParams(), query);
  const text = search.toString();
  return `#${path}${text && `?${text}`}`;
}

/** `href` of a path with values in it: `pathTo("/runs/:id", { id })`. */
export function pathTo(pattern: string, values: Record<string, string>): string {
  return pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
}

export function navigate(target: string, { replace = false } = {}): void {
  if (target === currentHash()) return;
  if (replace) window.history.replaceState(newEntry(), "", target);
  else window.history.pushState(newEntry(), "", target);
  notify();
}

export function patched(query: URLSearchParams, patch: QueryPatch): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(patch)) {
    next.delete(name);
    for (const each of typeof value === "string" ? [value] : (value ?? [])) if (each) next.append(name, each);
  }
  return next;
}

export function usePlace(): Place {
  const hash = useSyncExternalStore(subscribe, currentHash);
  return useMemo(() => parseHash(hash), [hash]);
}

/** The key of the current history entry: Back returns to the same one, a link creates a new one. */
export const useEntry = (): string => useSyncExternalStore(subscribe, currentEntry);

/** The query of the URL, and a function that changes parts of it. */
export function useQueryState() {
  const { path, query } = usePlace();
  const change = (patch: QueryPatch, options?: { replace?: boolean }) =>
    navigate(href(path, patched(query, patch)), options);
  return [query, change] as const;
}

/** Those of these parameters that the URL has. */
export const picked = (query: URLSearchParams, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (query.get(name) ? [[name, query.get(name) ?? ""]] : [])));

/** The values of a path that matches the pattern, or null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const names: string[] = [];
  const source = pattern.replace(/:(\w+)/g, (_, name: string) => {
    names.push(name);
    return "([^/]+)";
  });
  const found = new RegExp(`^${source}/?$`).exec(path);
  if (!found) return null;
  try {
    return Object.fromEntries(names.map((name, at) => [name, decodeURIComponent(found[at + 1] ?? "")]));
  } catch {
    return null;
  }
}
