/** The selected runs: some, or all that match the filter. Another filter clears the selection. */
import { useCallback, useState } from "react";

const NONE: ReadonlySet<string> = new Set();

export interface Selection {
  ids: ReadonlySet<string>;
  /** Whether all runs that match are selected, also those that are not loaded. */
  everything: boolean;
  toggle: (id: string) => void;
  /** Select these only. */
  select: (ids: readonly string[]) => void;
  selectEverything: () => void;
  clear: () => void;
}

export function useSelection(filter: string): Selection {
  const [held, setHeld] = useState({ filter, ids: NONE, everything: false });
  const isCurrent = held.filter === filter;
  if (!isCurrent) setHeld({ filter, ids: NONE, everything: false });
  const toggle = useCallback(
    (id: string) =>
      setHeld((before) => {
        const ids = new Set(before.ids);
        if (!ids.delete(id)) ids.add(id);
        return { ...before, ids, everything: false };
      }),
    [],
  );
  const select = useCallback(
    (ids: readonly string[]) => setHeld((before) => ({ ...before, ids: new Set(ids), everything: false })),
    [],
  );
  const selectEverything = useCallback(() => setHeld((before) => ({ ...before, everything: true })), []);
  const clear = useCallback(() => setHeld((before) => ({ ...before, ids: NONE, everything: false })), []);
  return {
    ids: isCurrent ? held.ids : NONE,
    everything: isCurrent && held.everything,
    toggle,
    select,
    selectEverything,
    clear,
  };
}
