/** The selected runs. Another filter clears the selection. */
import { useCallback, useState } from "react";

const NONE: ReadonlySet<string> = new Set();

export function useSelection(filter: string) {
  const [held, setHeld] = useState({ filter, ids: NONE });
  if (held.filter !== filter) setHeld({ filter, ids: NONE });
  const toggle = useCallback(
    (id: string) =>
      setHeld((before) => {
        const ids = new Set(before.ids);
        if (!ids.delete(id)) ids.add(id);
        return { ...before, ids };
      }),
    [],
  );
  const clear = useCallback(() => setHeld((before) => ({ ...before, ids: NONE })), []);
  return [held.filter === filter ? held.ids : NONE, toggle, clear] as const;
}
