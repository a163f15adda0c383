/** The cells of the table's columns. */

import { MessageCircleQuestion } from "lucide-react";
import type { ReactNode } from "react";
import { href } from "../../app/router";
import { visible } from "../../lib/visible";
import { CauseMark } from "../../ui/cause";
import { RunStatusBadge } from "../../ui/lostRuns";
import { Labels } from "../../ui/Tags";
import { Ago, Duration, StartsIn } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { COLUMN_NAMES, type ColumnName } from "./columnNames";
import type { Sort } from "./filters";
import { Peek } from "./Peek";
import { Progress } from "./Progress";
import { paramsText } from "./paramsText";
import styles from "./Runs.module.css";
import type { Run } from "./runList";

interface Column {
  width: string;
  sort?: Sort;
  cell: (run: Run, shown: readonly ColumnName[]) => ReactNode;
}

/** When a run that was not started yet starts. */
export const startAt = (run: Run): number | null =>
  run.status === "SCHEDULED" ? (run.start_at ?? null) : null;

/** The tags other than the one that selects its workers. */
const labelsOf = (run: Run): string[] => run.tags.filter((each) => each !== run.tag);

/** The first label, and how many others there are: the page of the run has all of them. */
export function FirstLabel({ run }: { run: Run }) {
  const [first, ...others] = labelsOf(run);
  if (first === undefined) return null;
  return (
    <span className={styles.labels}>
      <Labels labels={[first]} />
      {others.length > 0 && <span title={visible(others.join(", "))}>+{others.length}</span>}
    </span>
  );
}

const Start = ({ at }: { at: number | null }) => at !== null && <StartsIn at={at} />;

export const Params = ({ run }: { run: Run }) =>
  run.params_preview && (
    <Peek of="params" className={styles.params}>
      <UserText text={paramsText(run.params_preview)} />
    </Peek>
  );

export const ErrorText = ({ run }: { run: Run }) =>
  run.error && (
    <Peek of="error" className={styles.error}>
      <UserText text={run.error} />
    </Peek>
  );

export const Question = ({ run }: { run: Run }) =>
  run.wait_message && (
    <Peek of="question" className={styles.question}>
      <MessageCircleQuestion size={13} aria-hidden />
      <UserText text={run.wait_message} />
    </Peek>
  );

const CELLS: Record<ColumnName, Column> = {
  status: { width: "116px", sort: "status", cell: (run) => <RunStatusBadge run={run} /> },
  flow_name: {
    width: "minmax(110px, 1fr)",
    sort: "flow_name",
    cell: (run) => (
      <span className={styles.flow}>
        <UserText text={run.flow_name} />
      </span>
    ),
  },
  run_id: { width: "72px", cell: (run) => <code title={run.run_id}>{run.run_id.slice(0, 8)}</code> },
  params: { width: "minmax(110px, 1.1fr)", cell: (run) => <Params run={run} /> },
  labels: { width: "minmax(64px, 0.5fr)", cell: (run) => <FirstLabel run={run} /> },
  cause: {
    width: "minmax(84px, 0.7fr)",
    cell: (run) =>
      run.cause && run.cause.kind !== "api" && <CauseMark cause={run.cause} tenant={run.tenant_id} />,
  },
  tasks: { width: "76px", cell: (run) => <Progress run={run} /> },
  tag: {
    width: "minmax(76px, 0.6fr)",
    cell: (run) => (
      <a href={href("/runs", { tag: run.tag })}>
        <UserText text={run.tag} />
      </a>
    ),
  },
  worker_id: { width: "minmax(64px, 0.6fr)", cell: (run) => <UserText text={run.worker_id ?? ""} /> },
  attempt: { width: "72px", cell: (run) => (run.attempt > 1 ? run.attempt : "") },
  submitted_at: { width: "100px", sort: "submitted_at", cell: (run) => <Ago at={run.submitted_at} /> },
  start_time: {
    width: "100px",
    sort: "start_time",
    cell: (run) => <Ago at={run.start_time ?? startAt(run)} />,
  },
  duration: {
    width: "84px",
    sort: "duration",
    cell: (run) =>
      run.start_time ? <Duration from={run.start_time} to={run.end_time} /> : <Start at={startAt(run)} />,
  },
  updated_at: { width: "72px", sort: "updated_at", cell: (run) => <Ago at={run.updated_at} /> },
  question: { width: "minmax(120px, 1.6fr)", cell: (run) => <Question run={run} /> },
  // A run that asks something has no error yet: without a column of its own, the question is here.
  error: {
    width: "minmax(110px, 2.6fr)",
    cell: (run, shown) =>
      run.error || shown.includes("question") ? <ErrorText run={run} /> : <Question run={run} />,
  },
};

export const COLUMNS = COLUMN_NAMES.map((name) => ({ name, ...CELLS[name] }));
