/** The runs on the screen: pages that were read, and what was told about them since. Pure, for its tests. */
import type { Schemas } from "../../api/client";
import type { Ordering, Sort } from "./filters";

export type Run = Schemas["RunItem"];
export type Change = { run: Run } | { removed: string };

export interface RunList {
  readonly rows: ReadonlyMap<string, Run>;
  readonly order: readonly string[];
  /** Told meanwhile, and not shown where they belong until the reader is back at the top. */
  readonly held: ReadonlyMap<string, Run>;
  /** More was told than is held: who comes back to the top needs the list anew. */
  readonly overflowed: boolean;
  /** Where the next page begins; null: all are there. */
  readonly cursor: string | null;
  /** The place in the stream of changes that it stands for; null: it is not known. */
  readonly position: string | null;
}

export const EMPTY: RunList = {
  rows: new Map(),
  order: [],
  held: new Map(),
  overflowed: false,
  cursor: null,
  position: null,
};

/** Somebody may read further down all day long. */
export const MOST_HELD = 2_000;

const VALUES: Record<Sort, (run: Run) => string | number | null> = {
  updated_at: (run) => run.updated_at,
  submitted_at: (run) => run.submitted_at,
  start_time: (run) => run.start_time,
  end_time: (run) => run.end_time,
  duration: (run) => run.duration_sec,
  flow_name: (run) => run.flow_name,
  status: (run) => run.status,
};

/** The order of the list; a run without the value is smaller than every other, as in the API. */
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

/** The list after these changes. While it is held still, no row moves; rows that are there change in place. */
export function withChanges(
  list: RunList,
  changes: readonly Change[],
  ordering: Ordering,
  { still }: { still: boolean },
): RunList {
  const rows = new Map(list.rows);
  const held = new Map(list.held);
  let { overflowed } = list;
  for (const change of changes) {
    if ("removed" in change) {
      rows.delete(change.removed);
      held.delete(change.removed);
      continue;
    }
    const { run } = change;
    if (still && held.size >= MOST_HELD && !held.has(run.run_id)) overflowed = true;
    else held.set(run.run_id, run);
    if (rows.has(run.run_id)) rows.set(run.run_id, run);
  }
  const order = list.order.filter((id) => rows.has(id));
  const next = { ...list, rows, held, overflowed, order };
  return still ? next : released(next, ordering);
}

/** The list with everything where it belongs. */
export function released(list: RunList, ordering: Ordering): RunList {
  if (list.held.size === 0) return list;
  const by = comparison(ordering);
  const rows = new Map(list.rows);
  const staying = list.order.filter((id) => !list.held.has(id));
  const last = rows.get(staying.at(-1) ?? "");
  const moving: Run[] = [];
  for (const run of list.held.values()) {
    // What belongs behind the pages that were read comes with a later one.
    if (list.cursor !== null && last && by(run, last) > 0) rows.delete(run.run_id);
    else {
      rows.set(run.run_id, run);
      moving.push(run);
    }
  }
  return { ...list, rows, order: merged(staying, moving.sort(by), rows, by), held: new Map() };
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

/** How many runs are new since the list was held still; if it has overflowed, there may be more. */
export const newCount = (list: RunList): number =>
  [...list.held.keys()].filter((id) => !list.rows.has(id)).length;
