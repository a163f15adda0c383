/** The columns of the table. */

import type { ReactNode } from "react";
import { storedValue } from "../../lib/store";
import { visible } from "../../lib/visible";
import { CauseMark } from "../../ui/cause";
import { StatusBadge } from "../../ui/status";
import { Ago, Duration, StartsIn } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import type { Sort } from "./filters";
import { Progress } from "./Progress";
import styles from "./Runs.module.css";
import type { Run } from "./runList";

export type ColumnName =
  | "status"
  | "flow_name"
  | "run_id"
  | "tasks"
  | "cause"
  | "tag"
  | "worker_id"
  | "attempt"
  | "submitted_at"
  | "start_time"
  | "duration"
  | "updated_at"
  | "error";

interface Column {
  name: ColumnName;
  width: string;
  sort?: Sort;
  cell: (run: Run) => ReactNode;
}

/** When a run that was not started yet starts. */
export const startAt = (run: Run): number | null =>
  run.status === "SCHEDULED" ? (run.start_at ?? null) : null;

const Start = ({ at }: { at: number | null }) => at !== null && <StartsIn at={at} />;

export const COLUMNS: readonly Column[] = [
  { name: "status", width: "116px", sort: "status", cell: (run) => <StatusBadge status={run.status} /> },
  {
    name: "flow_name",
    width: "minmax(118px, 1.3fr)",
    sort: "flow_name",
    cell: (run) => (
      <span className={styles.flow}>
        <UserText text={run.flow_name} />
      </span>
    ),
  },
  { name: "run_id", width: "84px", cell: (run) => <code title={run.run_id}>{run.run_id.slice(0, 8)}</code> },
  {
    name: "cause",
    width: "minmax(96px, 0.8fr)",
    cell: (run) =>
      run.cause && run.cause.kind !== "api" && <CauseMark cause={run.cause} tenant={run.tenant_id} />,
  },
  { name: "tasks", width: "92px", cell: (run) => <Progress run={run} /> },
  {
    name: "tag",
    width: "minmax(76px, 0.6fr)",
    cell: (run) => (
      <span title={visible(run.tags.join(", "))}>
        <UserText text={run.tags.join(", ") || run.tag} />
      </span>
    ),
  },
  { name: "worker_id", width: "minmax(64px, 0.6fr)", cell: (run) => <UserText text={run.worker_id ?? ""} /> },
  { name: "attempt", width: "72px", cell: (run) => (run.attempt > 1 ? run.attempt : "") },
  {
    name: "submitted_at",
    width: "100px",
    sort: "submitted_at",
    cell: (run) => <Ago at={run.submitted_at} />,
  },
  {
    name: "start_time",
    width: "100px",
    sort: "start_time",
    cell: (run) => <Ago at={run.start_time ?? startAt(run)} />,
  },
  {
    name: "duration",
    width: "92px",
    sort: "duration",
    cell: (run) =>
      run.start_time ? <Duration from={run.start_time} to={run.end_time} /> : <Start at={startAt(run)} />,
  },
  { name: "updated_at", width: "84px", sort: "updated_at", cell: (run) => <Ago at={run.updated_at} /> },
  {
    name: "error",
    width: "minmax(104px, 1.6fr)",
    cell: (run) =>
      run.error && (
        <span className={styles.error} title={visible(run.error)}>
          <UserText text={run.error} />
        </span>
      ),
  },
];

const USUAL: readonly ColumnName[] = [
  "status",
  "flow_name",
  "run_id",
  "cause",
  "tasks",
  "worker_id",
  "duration",
  "updated_at",
  "error",
];
const isNames = (value: unknown): value is readonly ColumnName[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((name) => COLUMNS.some((each) => each.name === name));

export const shownColumns = storedValue<readonly ColumnName[]>(
  () => localStorage,
  "pyoco.run-columns",
  USUAL,
  isNames,
);

export function toggleColumn(name: ColumnName): void {
  const shown = shownColumns.get();
  const next = COLUMNS.filter((each) => (each.name === name) !== shown.includes(each.name)).map(
    (each) => each.name,
  );
  if (next.length > 0) shownColumns.set(next);
}
