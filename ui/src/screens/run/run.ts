/** A run for this screen: its snapshot, and its tasks in the order of the flow. */
import type { Schemas } from "../../api/client";
import { isTerminal } from "../../ui/status";

/** A task record; while the run executes only the fields above the line. See docs/http-api.md. */
export interface TaskRecord {
  after?: string[];
  started_at?: number | null;
  ended_at?: number | null;
  error?: string | null;
  calls?: number;
  replayed?: boolean;
  // ----
  duration_ms?: number | null;
  traceback?: string | null;
  inputs?: unknown;
  output?: unknown;
  artifacts?: unknown;
  stdout?: string;
  stderr?: string;
  latest_calls?: { started_at: number; ended_at: number; error?: string }[];
  truncated?: string[];
  not_json?: string[];
  not_journalled?: string;
  executed_again?: string;
}

export type Run = Omit<Schemas["RunSnapshot"], "task_records" | "params"> & {
  params: Record<string, unknown>;
  task_records?: Record<string, TaskRecord>;
};

/** A wait of a run for a person, a time, a signal or an event. */
export type Wait = Schemas["WaitItem"];
export type OpenWait = Schemas["OpenWait"];

/** The name of the signal or event; the wait's own name is unique within its run. */
export const topicOf = (wait: { topic?: string | null; name: string }): string => wait.topic ?? wait.name;
/** A wait without a kind is a question. */
export const openWaits = (run: Run, kind: Schemas["WaitKind"]): OpenWait[] =>
  (run.open_waits ?? []).filter((wait) => (wait.kind ?? "human") === kind);

export interface Task {
  name: string;
  /**
   * `NOT_RUN`: when its run ended, it was still to come. `INTERRUPTED`: it was executed by a worker that is lost.
   * `PLANNED`: a task of a flow, not of a run. `WAITING_HUMAN`: it waits, and for a person.
   */
  state: Schemas["TaskStatus"] | "NOT_RUN" | "INTERRUPTED" | "PLANNED" | "WAITING_HUMAN";
  record: TaskRecord;
}

/** `isLost`: the worker of the run is lost, and no other has taken the run over yet. */
export function tasksOf(run: Run, isLost = false): Task[] {
  const records = run.task_records ?? {};
  // After the end of the run nothing is pending any more.
  const hasRunEnded = isTerminal(run.status);
  const asked = new Set(openWaits(run, "human").map(({ task }) => task));
  return Object.entries(run.tasks).map(([name, raw]) => {
    // The same word as its run has.
    const stored = raw === "WAITING" && asked.has(name) ? "WAITING_HUMAN" : raw;
    const record = records[name] ?? {};
    const neverRan =
      hasRunEnded && (stored === "PENDING" || (stored === "CANCELLED" && record.started_at == null));
    if (neverRan) return { name, state: "NOT_RUN", record };
    return { name, state: isLost && stored === "RUNNING" ? "INTERRUPTED" : stored, record };
  });
}

/** From the first call of a task to the end of its last one, in seconds: the same wherever it is shown. */
export function tookOf({ record }: Task, end: number | null): number | null {
  const from = record.latest_calls?.[0]?.started_at ?? record.started_at;
  const to = record.ended_at ?? end;
  return from == null || to == null ? null : Math.max(0, to - from);
}

/** Whether the task, or any task, has printed something in this run. A reused result has the output of another. */
export const hasPrinted = (tasks: readonly Task[], name: string | null): boolean =>
  tasks.some(
    ({ name: each, record }) =>
      (name === null || each === name) && !record.replayed && Boolean(record.stdout || record.stderr),
  );

const ENDED_TASK = new Set<string>(["SUCCEEDED", "FAILED", "CANCELLED"]);
export const hasTaskEnded = (state: string): boolean => ENDED_TASK.has(state);

/** The number of tasks by state, most important state first. */
export function counted(tasks: readonly Task[]): [Task["state"], number][] {
  const order: Task["state"][] = [
    "FAILED",
    "INTERRUPTED",
    "WAITING_HUMAN",
    "WAITING",
    "RUNNING",
    "SUCCEEDED",
    "CANCELLED",
    "PENDING",
    "NOT_RUN",
  ];
  return order
    .map((state): [Task["state"], number] => [state, tasks.filter((each) => each.state === state).length])
    .filter(([, count]) => count > 0);
}

/** The failed tasks that say why. */
export const failuresOf = (tasks: readonly Task[]): Task[] =>
  tasks.filter(({ state, record }) => state === "FAILED" && (record.traceback || record.error));

/** The direct predecessors and successors of a task. */
export function neighbours(tasks: readonly Task[], name: string | null): ReadonlySet<string> {
  if (name === null) return new Set();
  const before = tasks.find((each) => each.name === name)?.record.after ?? [];
  const behind = tasks.filter((each) => each.record.after?.includes(name)).map((each) => each.name);
  return new Set([...before, ...behind]);
}

/**
 * The error of an expired question ends with an API call; this screen has a button instead. The text is that of
 * `unanswered_text` in src/pyoco_server/waits/wait_transitions.py: change both together.
 */
export const withoutApiCall = (message: string): string =>
  message.replace(/ POST \/runs\/[^/\s]+\/retry asks again\.?$/, "");
