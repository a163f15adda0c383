/** The rows on the screen: loaded pages and changes since. Pure functions. */
import type { Schemas } from "../../api/client";
import type { Ordering, Sort } from "./filters";

export type Run = Schemas["RunItem"];
export type Change = { run: Run } | { removed: string };

export interface RunList {
  readonly rows: ReadonlyMap<string, Run>;
  readonly order: readonly string[];
  /** Applied when the reader is back at the top. */
  readonly pendingChanges: ReadonlyMap<string, Run>;
  /** Too many pending changes: the list must be loaded again. */
  readonly overflowed: boolean;
  /** The cursor of the next page; null: all are loaded. */
  readonly cursor: string | null;
  /** The position in the stream of changes; null: unknown. */
  readonly position: string | null;
}

export const EMPTY: RunList = {
  rows: new Map(),
  order: [],
  pendingChanges: new Map(),
  overflowed: false,
  cursor: null,
  position: null,
};

/** Bounds the pending changes of a list that is never scrolled to its top. */
export const MAX_PENDING = 2_000;

const VALUES: Record<Sort, (run: Run) => string | number | null> = {
  updated_at: (run) => run.updated_at,
  submitted_at: (run) => run.submitted_at,
  start_time: (run) => run.start_time,
  end_time: (run) => run.end_time,
  duration: (run) => run.duration_sec,
  flow_name: (run) => run.flow_name,
  status: (run) => run.status,
};

/** The order of the list; a missing value is the smallest, as in the API. */
export function comparison({ sort, ascending }: Ordering): (a: Run, b: Run) => number {
  const value = VALUES[sort];
  const sign = ascending ? 1 : -1;
  return (a, b) => sign * (compare(value(a), value(b)) || compare(a.run_id, b.run_id));
}

function compare(a: string | number | null, b: string | number | null): number {
  if (a === b) return 0;
  if (a === null) return -1;
  if (b === null) return 1;
  return a < b ? -1 : 1;
}

export function withPage(list: RunList, items: readonly Run[], cursor: string | null): RunList {
  const rows = new Map(list.rows);
  const fresh = items.filter((run) => !rows.has(run.run_id));
  for (const run of fresh) rows.set(run.run_id, run);
  return { ...list, rows, order: [...list.order, ...fresh.map((run) => run.run_id)], cursor };
}

/** The list after these changes. While it is frozen no row moves; rows change in place. */
export function withChanges(
  list: RunList,
  changes: readonly Change[],
  ordering: Ordering,
  { frozen }: { frozen: boolean },
): RunList {
  const rows = new Map(list.rows);
  const pendingChanges = new Map(list.pendingChanges);
  let { overflowed } = list;
  for (const change of changes) {
    if ("removed" in change) {
      rows.delete(change.removed);
      pendingChanges.delete(change.removed);
      continue;
    }
    const { run } = change;
    if (frozen && pendingChanges.size >= MAX_PENDING && !pendingChanges.has(run.run_id)) overflowed = true;
    else pendingChanges.set(run.run_id, run);
    if (rows.has(run.run_id)) rows.set(run.run_id, run);
  }
  const order = list.order.filter((id) => rows.has(id));
  const next = { ...list, rows, pendingChanges, overflowed, order };
  return frozen ? next : released(next, ordering);
}

/** The list with all pending changes applied. */
export function released(list: RunList, ordering: Ordering): RunList {
  if (list.pendingChanges.size === 0) return list;
  const by = comparison(ordering);
  const rows = new Map(list.rows);
  const staying = list.order.filter((id) => !list.pendingChanges.has(id));
  const last = rows.get(staying.at(-1) ?? "");
  const moving: Run[] = [];
  for (const run of list.pendingChanges.values()) {
    // Rows after the loaded pages come with a later page.
    if (list.cursor !== null && last && by(run, last) > 0) rows.delete(run.run_id);
    else {
      rows.set(run.run_id, run);
      moving.push(run);
    }
  }
  return { ...list, rows, order: merged(staying, moving.sort(by), rows, by), pendingChanges: new Map() };
}

function merged(
  staying: readonly string[],
  moving: readonly Run[],
  rows: ReadonlyMap<string, Run>,
  by: (a: Run, b: Run) => number,
): string[] {
  const order: string[] = [];
  let at = 0;
  for (const id of staying) {
    const run = rows.get(id);
    for (let next = moving[at]; next && run && by(next, run) < 0; next = moving[at]) {
      order.push(next.run_id);
      at += 1;
    }
    order.push(id);
  }
  return [...order, ...moving.slice(at).map((run) => run.run_id)];
}

/** The number of new runs since the list was frozen; after an overflow there may be more. */
export const newCount = (list: RunList): number =>
  [...list.pendingChanges.keys()].filter((id) => !list.rows.has(id)).length;
