/** Rows, bars and attempts of the timeline. */
import { hasTaskEnded, type Run, type Task, tookOf, topicOf, type Wait } from "../run";

export interface Bar {
  from: number;
  /** Null while it executes. */
  to: number | null;
  state: string;
  error?: string;
}
/** A sleep, or a wait for a signal, an event or a person: nothing executes meanwhile. */
export interface Span {
  id: string;
  kind: "sleep" | "signal" | "event" | "human";
  topic: string;
  from: number;
  /** Null while it lasts. */
  to: number | null;
  /** When it ends at the latest. */
  until: number | null;
}
export interface Row {
  name: string;
  state: string;
  bars: Bar[];
  spans: Span[];
  /** Finished before this run, or by an earlier attempt. */
  replayed: boolean;
  calls: number;
  /** From its first call to its end; null while it has none. */
  took: number | null;
}
/** One attempt to execute the run, by one worker. */
export interface Attempt {
  number: number;
  worker: string | null;
  from: number;
  /** Null while it lasts. */
  to: number | null;
  end: "lost" | "handedBack" | null;
}

/**
 * The tasks in order of their start; pending ones last, in the order of the flow. An interrupted one lasted until
 * `heardAt`, when its worker was last heard of.
 */
export function rowsOf(
  tasks: readonly Task[],
  waits: readonly Wait[] = [],
  heardAt: number | null = null,
): Row[] {
  const spans = spansOf(waits);
  const began = (task: Task) =>
    task.record.latest_calls?.[0]?.started_at ?? task.record.started_at ?? Number.POSITIVE_INFINITY;
  return tasks
    .map((task, index) => ({ task, index, at: began(task) }))
    .sort((a, b) => (a.at === b.at ? a.index - b.index : a.at - b.at))
    .map(({ task }) => ({
      name: task.name,
      state: task.state,
      bars: task.state === "INTERRUPTED" ? endedBars(task, heardAt) : barsOf(task),
      spans: spans.filter(({ task: of }) => of === task.name),
      replayed: task.record.replayed === true,
      calls: task.record.calls ?? 1,
      took: tookOf(task, task.state === "INTERRUPTED" ? heardAt : null),
    }));
}

/** All attempts of a run, if there were several. */
export function attemptsOf(run: Run): Attempt[] {
  const earlier = run.earlier_attempts ?? [];
  if (earlier.length === 0) return [];
  const last = earlier.at(-1)?.last_heartbeat_at ?? run.heartbeat_at;
  return [
    ...earlier.map((each): Attempt => {
      const { number, worker_id: worker, started_at, last_heartbeat_at: to } = each;
      return { number, worker, from: started_at ?? to, to, end: each.handed_back ? "handedBack" : "lost" };
    }),
    {
      number: run.attempt,
      worker: run.worker_id,
      from: run.attempt_started_at ?? last,
      to: run.end_time,
      end: null,
    },
  ];
}

const KINDS = ["sleep", "signal", "event", "human"] as const;

export function spansOf(waits: readonly Wait[]): (Span & { task: string })[] {
  return waits.flatMap((wait) => {
    // A wait without a kind is a question.
    const kind = KINDS.find((each) => each === (wait.kind ?? "human"));
    if (!kind) return [];
    return {
      id: wait.wait_id,
      kind,
      task: wait.task,
      topic: topicOf(wait),
      from: wait.created_at,
      to: wait.decided_at ?? null,
      until: wait.deadline_at,
    };
  });
}

const endedBars = (task: Task, at: number | null): Bar[] =>
  barsOf(task).map((bar) => (bar.to === null && at !== null ? { ...bar, to: Math.max(bar.from, at) } : bar));

/** A bar per call, and one for the current call, which is not recorded yet. */
function barsOf({ state, record }: Task): Bar[] {
  const from = record.started_at;
  if (from == null) return [];
  const calls = record.latest_calls ?? [];
  if (calls.length === 0) return [{ from, to: record.ended_at ?? null, state }];
  const bars = calls.map(({ started_at, ended_at, error }): Bar => {
    return { from: started_at, to: ended_at, state: error === undefined ? "SUCCEEDED" : "FAILED", error };
  });
  const last = bars.at(-1);
  if (last && hasTaskEnded(state)) return [...bars.slice(0, -1), { ...last, state }];
  return [...bars, { from: Math.max(from, last?.to ?? from), to: null, state }];
}
