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

/** Scroll a box to where it was. Its content has to be there together with the component. */
export function useKeptScroll(name: string, find: () => Element | null | undefined): number | undefined {
  const { found, keep } = useKept<number>(name);
  const box = useRef(find);
  // After the shell, which brings another screen to its top.
  useEffect(() => {
    if (found) box.current()?.scrollTo(0, found);
  }, [found]);
  // Before the box leaves the page.
  useLayoutEffect(() => () => keep(box.current()?.scrollTop ?? 0), [keep]);
  return found;
}
