/** The shown columns: those of the URL, those chosen in this browser, or the usual ones. */
import { useMemo } from "react";
import { useQueryState } from "../../app/router";
import { useWide } from "../../lib/media";
import { storedValue, useStore } from "../../lib/store";
import { COLUMN_NAMES, type ColumnName, columnsIn } from "./columnNames";

const USUAL: readonly ColumnName[] = [
  "status",
  "flow_name",
  "run_id",
  "params",
  "labels",
  "tasks",
  "duration",
  "updated_at",
  "error",
];
/** Where there is room for them. */
const USUAL_WIDE: readonly ColumnName[] = COLUMN_NAMES.filter(
  (name) => USUAL.includes(name) || name === "cause" || name === "worker_id",
);

const isName = (value: unknown): value is ColumnName => COLUMN_NAMES.some((name) => name === value);
const isNames = (value: unknown): value is readonly ColumnName[] | null =>
  value === null || (Array.isArray(value) && value.length > 0 && value.every(isName));

/** Null: the usual ones. */
const chosenColumns = storedValue<readonly ColumnName[] | null>(
  () => localStorage,
  "pyoco.run-columns",
  null,
  isNames,
);

/** The columns, and a function that shows or hides one: the last one stays. */
export function useColumns(): [readonly ColumnName[], (name: ColumnName) => void] {
  const [query, change] = useQueryState();
  const chosen = useStore(chosenColumns);
  const wide = useWide();
  // The same array for the same URL: rows are rendered again only for another one.
  const named = useMemo(() => columnsIn(query), [query]);
  const shown = named ?? chosen ?? (wide ? USUAL_WIDE : USUAL);
  const toggle = (name: ColumnName) => {
    const next = COLUMN_NAMES.filter((each) => (each === name) !== shown.includes(each));
    if (next.length === 0) return;
    if (named) change({ columns: next.join(",") }, { replace: true });
    else chosenColumns.set(next);
  };
  return [shown, toggle];
}
