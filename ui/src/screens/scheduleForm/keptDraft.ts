/** The draft in the browser, so that a reload keeps it. It is removed with the key. */
import { apiKey, SCHEDULE_DRAFT } from "../../api/apiKey";
import { storedValue } from "../../lib/store";
import { isObject } from "../../schemaForm/json";
import { type Draft, EMPTY } from "./draft";

export interface Kept {
  /** The schedule that is edited; empty: a new one. */
  target: string;
  draft: Draft;
  /** What it was when the form opened. */
  base: Draft;
  revision: number;
}

const isDraft = (value: unknown): boolean =>
  isObject(value) &&
  Object.keys(EMPTY).every((name) => typeof value[name] === typeof EMPTY[name as keyof Draft]);
const isKept = (value: unknown): value is Kept | null =>
  value === null ||
  (isObject(value) && typeof value.target === "string" && isDraft(value.draft) && isDraft(value.base));

export const kept = storedValue<Kept | null>(() => sessionStorage, SCHEDULE_DRAFT, null, isKept);
apiKey.subscribe(() => kept.set(null));

/** A new schedule of this flow; what else was typed for a new one is kept. */
export function startDraft(flow: string): void {
  const before = kept.get();
  const draft = before?.target === "" ? before.draft : EMPTY;
  kept.set({ target: "", draft: { ...draft, flowName: flow }, base: EMPTY, revision: 0 });
}
