/** The events of a run, oldest first, derived from its stored data. */
import { hasTaskEnded, type Run, type Task, topicOf, type Wait } from "../run";

export type EventKind =
  | "submitted"
  | "started"
  | "restarted"
  | "workerLost"
  | "handedBack"
  | "retried"
  | "taskFailed"
  | "asked"
  | "answered"
  | "expired"
  | "closed"
  | "withdrawn"
  | "sleeps"
  | "wakes"
  | "waitsSignal"
  | "signal"
  | "waitsEvent"
  | "event"
  | "waitExpired"
  | "waitClosed"
  | "cancelRequested"
  | "completed"
  | "failed"
  | "cancelled";

export interface RunEvent {
  kind: EventKind;
  /** Null if unknown. */
  at: number | null;
  tone: string;
  task?: string;
  who?: string | null;
  text?: string | null;
  waitId?: string;
  number?: number;
  /** The name of a signal or an event. */
  topic?: string;
  /** When a sleep ends. */
  until?: number | null;
}

const CLOSED = {
  answered: "answered",
  expired: "expired",
  cancelled: "closed",
  withdrawn: "withdrawn",
} as const;
const ENDED = { COMPLETED: "completed", FAILED: "failed", CANCELLED: "cancelled" } as const;

export function eventsOf(run: Run, tasks: readonly Task[], waits: readonly Wait[]): RunEvent[] {
  const events: RunEvent[] = [
    { kind: "submitted", at: run.submitted_at, tone: "PENDING", who: run.api_key_id },
  ];
  events.push(...eventsOfAttempts(run));
  for (const { name, state, record } of tasks) {
    // The last call of an ended task was not retried.
    for (const call of record.latest_calls?.slice(0, hasTaskEnded(state) ? -1 : undefined) ?? [])
      if (call.error !== undefined)
        events.push({ kind: "retried", at: call.ended_at, tone: "CANCELLING", task: name, text: call.error });
    if (state === "FAILED" && record.ended_at != null)
      events.push({
        kind: "taskFailed",
        at: record.ended_at,
        tone: "FAILED",
        task: name,
        text: record.error,
      });
  }
  for (const wait of waits) events.push(...eventsOfWait(wait));
  if (run.cancel_requested_at != null)
    events.push({
      kind: "cancelRequested",
      at: run.cancel_requested_at,
      tone: "CANCELLING",
      who: run.cancel_requested_by,
      text: run.cancel_reason,
    });
  if (run.status in ENDED) {
    const kind = ENDED[run.status as keyof typeof ENDED];
    events.push({ kind, at: run.end_time, tone: run.status, text: kind === "failed" ? run.reason : null });
  }
  return inOrder(events);
}

/** Who began the run, who was lost or released it, and who took it over. */
function eventsOfAttempts(run: Run): RunEvent[] {
  if (run.start_time == null) return [];
  const earlier = run.earlier_attempts ?? [];
  const first = earlier.find(({ number }) => number === 1)?.worker_id ?? null;
  const began = (number: number, at: number | null, who: string | null): RunEvent[] =>
    number > 1 ? [{ kind: "restarted", at, tone: "RUNNING", who, number }] : [];
  return [
    {
      kind: "started",
      at: run.start_time,
      tone: "RUNNING",
      who: run.attempt > 1 ? first : run.worker_id,
    },
    ...earlier.flatMap((each): RunEvent[] => [
      ...began(each.number, each.started_at, each.worker_id),
      {
        kind: each.handed_back ? "handedBack" : "workerLost",
        at: each.last_heartbeat_at,
        tone: each.handed_back ? "CANCELLING" : "FAILED",
        who: each.worker_id,
        number: each.number,
      },
    ]),
    ...began(run.attempt, run.attempt_started_at ?? null, run.worker_id),
  ];
}

const BEGUN = { sleep: "sleeps", signal: "waitsSignal", event: "waitsEvent" } as const;
const RECEIVED = { sleep: "wakes", signal: "signal", event: "event" } as const;

/** A sleep has no topic, and its end is not a timeout. */
function eventsOfParking(wait: Wait, kind: keyof typeof BEGUN): RunEvent[] {
  const isSleep = kind === "sleep";
  const common = { task: wait.task, topic: isSleep ? undefined : topicOf(wait) };
  const begun: RunEvent = {
    kind: BEGUN[kind],
    at: wait.created_at,
    tone: "WAITING",
    ...common,
    until: isSleep ? wait.deadline_at : null,
  };
  if (wait.state === "open") return [begun];
  const received = wait.state === "answered" || (isSleep && wait.state === "expired");
  const ended = received ? RECEIVED[kind] : wait.state === "expired" ? "waitExpired" : "waitClosed";
  const tone = received ? "SUCCEEDED" : "CANCELLED";
  return [begun, { kind: ended, at: wait.decided_at, tone, ...common }];
}

function eventsOfWait(wait: Wait): RunEvent[] {
  const { kind } = wait;
  if (kind === "sleep" || kind === "signal" || kind === "event") return eventsOfParking(wait, kind);
  const common = { task: wait.task, waitId: wait.wait_id };
  const asked: RunEvent = {
    kind: "asked",
    at: wait.created_at,
    tone: "WAITING",
    text: wait.message,
    ...common,
  };
  if (wait.state === "open") return [asked];
  const who = wait.decided_by?.name ?? wait.decided_by?.api_key_id ?? null;
  const tone = wait.state === "answered" ? "SUCCEEDED" : "CANCELLED";
  return [
    asked,
    { kind: CLOSED[wait.state], at: wait.decided_at, tone, who, text: wait.decision, ...common },
  ];
}

/** By time; events without a time stay after their predecessor. */
function inOrder(events: RunEvent[]): RunEvent[] {
  let last = 0;
  return events
    .map((event) => {
      last = event.at ?? last;
      return { event, at: last };
    })
    .sort((a, b) => a.at - b.at)
    .map(({ event }) => event);
}
