/** State that a screen restores on Back: scroll position, loaded pages.
 *
 * It belongs to an entry of the history, so a link to the same URL starts fresh.
 */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { apiKey } from "../api/apiKey";
import { useEntry } from "./router";

/** Lists may be long: only the latest ones are kept. */
const MOST = 20;
const kept = new Map<string, unknown>();
// Data read with the previous key must not be shown.
apiKey.subscribe(() => kept.clear());

/** The state stored under a name for this history entry, and a function to store it. */
export function useRestored<T>(name: string): { found: T | undefined; keep: (value: T) => void } {
  const key = `${name} ${useEntry()}`;
  const [found] = useState(() => kept.get(key) as T | undefined);
  const shown = useRef(key);
  useLayoutEffect(() => {
    shown.current = key;
  });
  const keep = useCallback((value: T) => {
    // Re-insert, so that the oldest entry is dropped first.
    kept.delete(shown.current);
    kept.set(shown.current, value);
    const [oldest] = kept.keys();
    if (kept.size > MOST && oldest !== undefined) kept.delete(oldest);
  }, []);
  return { found, keep };
}

type FindBox = () => Element | null | undefined;

/** Store and restore the scroll position of a box. */
export function useRestoredScroll(name: string, find: FindBox): number | undefined {
  const { found, keep } = useRestored<number>(name);
  useScrollTo(found, find);
  useAtEnd(() => keep(find()?.scrollTop ?? 0));
  return found;
}

/** Restore the scroll position of a box. Its content must be rendered with the component. */
export function useScrollTo(top: number | undefined, find: FindBox): void {
  const box = useRef(find);
  // After the shell, which scrolls a new screen to its top.
  useEffect(() => {
    if (top) box.current()?.scrollTo(0, top);
  }, [top]);
}

/** Called on unmount, before the elements leave the page. */
export function useAtEnd(callback: () => void): void {
  const latest = useRef(callback);
  useLayoutEffect(() => {
    latest.current = callback;
  });
  useLayoutEffect(() => () => latest.current(), []);
}
