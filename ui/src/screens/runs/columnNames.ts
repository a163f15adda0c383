/** The columns of the table by name; those of the URL belong to a view. */

/** In the order of the table. */
export const COLUMN_NAMES = [
  "status",
  "flow_name",
  "run_id",
  "params",
  "labels",
  "cause",
  "tasks",
  "tag",
  "worker_id",
  "attempt",
  "submitted_at",
  "start_time",
  "duration",
  "updated_at",
  "question",
  "error",
] as const;
export type ColumnName = (typeof COLUMN_NAMES)[number];

/** The columns that a URL names; null: none. */
export function columnsIn(query: URLSearchParams): readonly ColumnName[] | null {
  const given = (query.get("columns") ?? "").split(",");
  const names = COLUMN_NAMES.filter((name) => given.includes(name));
  return names.length > 0 ? names : null;
}
