/** What a screen keeps of itself for who comes back to it by Back: how far a list was scrolled, what had been read.
 *
 * It belongs to an entry of the history, so that a link to the same address begins anew.
 */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { apiKey } from "../api/apiKey";
import { useEntry } from "./router";

/** A list may be long: only the latest ones are kept. */
const MOST = 20;
const kept = new Map<string, unknown>();
// Other rights: what was read with the key before is not shown any more.
apiKey.subscribe(() => kept.clear());

/** What was kept here under a name when this entry was left, and a way to keep it when it is left again. */
export function useKept<T>(name: string): { found: T | undefined; keep: (value: T) => void } {
  const key = `${name} ${useEntry()}`;
  const [found] = useState(() => kept.get(key) as T | undefined);
  const shown = useRef(key);
  useLayoutEffect(() => {
    shown.current = key;
  });
  const keep = useCallback((value: T) => {
    // The one that was written last is the last to go.
    kept.delete(shown.current);
    kept.set(shown.current, value);
    const [oldest] = kept.keys();
    if (kept.size > MOST && oldest !== undefined) kept.delete(oldest);
  }, []);
  return { found, keep };
}

type FindBox = () => Element | null | undefined;

/** Keep how far a box is scrolled, and scroll it there again. */
export function useKeptScroll(name: string, find: FindBox): number | undefined {
  const { found, keep } = useKept<number>(name);
  useScrolledTo(found, find);
  useAtEnd(() => keep(find()?.scrollTop ?? 0));
  return found;
}

/** Scroll a box to where it was. Its content has to be there together with the component. */
export function useScrolledTo(top: number | undefined, find: FindBox): void {
  const box = useRef(find);
  // After the shell, which brings another screen to its top.
  useEffect(() => {
    if (top) box.current()?.scrollTo(0, top);
  }, [top]);
}

/** Called when the component goes, before what it has drawn leaves the page. */
export function useAtEnd(callback: () => void): void {
  const latest = useRef(callback);
  useLayoutEffect(() => {
    latest.current = callback;
  });
  useLayoutEffect(() => () => latest.current(), []);
}
