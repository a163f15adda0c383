/** The views: shared ones of the gateway, and those of this browser. */
import { api, body, type Schemas } from "../../../api/client";
import { useRead } from "../../../api/queries";
import { storedValue, useStore } from "../../../lib/store";
import type { OwnView, SharedView, ViewContent } from "./views";

const KEY = ["views"];
/** What to refetch after a change. */
export const REFRESH = [KEY];
const EVERY_MS = 15_000;

const isView = (value: unknown): value is OwnView =>
  typeof value === "object" && value !== null && "name" in value && "query" in value;
const isViews = (value: unknown): value is readonly OwnView[] => Array.isArray(value) && value.every(isView);
export const ownViews = storedValue<readonly OwnView[]>(() => localStorage, "pyoco.run-views", [], isViews);

export function useViews(): { shared: readonly SharedView[] | undefined; own: readonly OwnView[] } {
  const { data } = useRead(KEY, (signal) => api.GET("/views", { signal }), { every: EVERY_MS });
  return { shared: data?.views, own: useStore(ownViews) };
}

interface Change {
  /** Another name. */
  name?: string;
  /** Of the view that it replaces; 0: there must be none. */
  revision: number;
}

export const putView = (name: string, content: ViewContent, change: Change) =>
  api.PUT("/views/{view_name}", {
    params: { path: { view_name: name } },
    body: body<Schemas["ViewRequest"]>({ ...content, ...change }),
  });

export const deleteView = ({ name, revision }: SharedView) =>
  api.DELETE("/views/{view_name}", { params: { path: { view_name: name }, query: { revision } } });

export function saveOwn(view: OwnView, replaced = view.name): void {
  const others = ownViews.get().filter(({ name }) => name !== view.name && name !== replaced);
  ownViews.set([...others, view].sort((a, b) => a.name.localeCompare(b.name)));
}

export const removeOwn = (name: string): void =>
  ownViews.set(ownViews.get().filter((view) => view.name !== name));
