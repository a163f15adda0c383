/** What needs attention, the most urgent first. */
import type { Schemas } from "../../api/client";

export type Overview = Schemas["Overview"];
type Health = Schemas["Health"];
type Worker = Schemas["WorkerView"];
type Wait = Schemas["WaitItem"];
type Letter = Schemas["LetterView"];

export type Warning =
  | { kind: "nats"; detail: string }
  // The number of runs is for operators only.
  | { kind: "index"; runs: number | undefined; behind: number }
  | { kind: "unreadable"; count: number; records: readonly string[] }
  | { kind: "storage"; cause: WriteCause; detail: string }
  | { kind: "space"; of: string; free: number; limit: number }
  | { kind: "lost"; tag: string; runs: number; lostBy: readonly string[]; others: Others }
  | { kind: "noWorker"; tag: string; waiting: number; oldestSec: number }
  | { kind: "allHeld"; tag: string; waiting: number; held: number }
  | { kind: "slow"; tag: string; waiting: number; oldestSec: number }
  | { kind: "alerts"; count: number; alerts: readonly string[] }
  | { kind: "expiring"; count: number; deadline: number }
  | { kind: "disconnected"; workers: readonly string[] }
  | { kind: "wheels"; worker: string; error: string }
  | { kind: "letters"; count: number; before: number; more: boolean };

/** Why no other worker takes a lost run: there is none, none takes runs now, or all are busy. */
export type Others = "none" | "held" | "busy";

const WRITE_CAUSES = ["disk_full", "store_stopped", "not_stored", "limit_reached"] as const;
export type WriteCause = (typeof WRITE_CAUSES)[number];

export interface HomeData {
  health: Health | undefined;
  overview: Overview | undefined;
  workers: readonly Worker[];
  /** Open questions, the next deadline first. */
  waits: readonly Wait[];
  /** Of the last two hours, newest first. */
  letters: readonly Letter[];
  moreLetters: boolean;
  /** Unix seconds. */
  now: number;
}

/** "All well" may be shown only if all data is current. */
export const isAllKnown = (reads: readonly { data: unknown; error: unknown }[]): boolean =>
  reads.every(({ data, error }) => data !== undefined && !error);

/** A served queue with a longer wait has too few workers. */
const SLOW_SEC = 300;
const EXPIRING_SEC = 3_600;
const HOUR_SEC = 3_600;
/** Fewer dead letters are single failures, which the failing flows show. */
const SEVERAL_LETTERS = 5;

export function findWarnings(data: HomeData): Warning[] {
  return [
    ...ofGateway(data),
    ...ofRecords(data.overview),
    ...ofLostRuns(data),
    ...ofQueues(data.overview),
    ...ofAlerts(data.overview),
    ...ofWaits(data),
    ...ofWorkers(data),
    ...ofLetters(data),
  ];
}

function ofGateway({ health }: HomeData): Warning[] {
  if (!health) return [];
  const { storage } = health;
  if (!storage.ready) {
    // A gateway of a later version may have others.
    const cause = WRITE_CAUSES.find((known) => known === storage.cause) ?? "not_stored";
    return [{ kind: "storage", cause, detail: storage.detail ?? "" }];
  }
  if (!health.nats.ready) return [{ kind: "nats", detail: health.nats.detail || health.nats.status }];
  const low = (storage.low ?? []).map((left): Warning => {
    return { kind: "space", of: left.of, free: left.free_bytes, limit: left.limit_bytes };
  });
  const { ready, runs, behind = 0 } = health.index;
  return ready ? low : [...low, { kind: "index", runs, behind }];
}

/** Only the operator gets the list. */
function ofRecords(overview: Overview | undefined): Warning[] {
  const { total = 0, newest = [] } = overview?.unreadable ?? {};
  if (total === 0) return [];
  return [{ kind: "unreadable", count: total, records: newest.map(({ kind, key }) => `${kind} ${key}`) }];
}

/** Runs whose worker is gone, by tag. Where a worker is free, it takes them over within seconds. */
function ofLostRuns({ overview, workers, now }: HomeData): Warning[] {
  const all = overview?.lost_runs ?? [];
  return [...new Set(all.map(({ tag }) => tag))].flatMap((tag): Warning[] => {
    const lost = all.filter((each) => each.tag === tag);
    const others = othersServing(tag, overview, workers);
    const since = Math.min(...lost.map(({ last_seen_at: at }) => at ?? 0));
    if (others === "busy" && now - since <= SLOW_SEC) return [];
    const runs = lost.reduce((sum, each) => sum + each.runs, 0);
    return [{ kind: "lost", tag, runs, lostBy: lost.map(({ worker_id: id }) => id), others }];
  });
}

function othersServing(tag: string, overview: Overview | undefined, workers: readonly Worker[]): Others {
  const queue = overview?.queues.find((each) => each.tag === tag);
  if (queue) return queue.workers ? "busy" : queue.workers_held ? "held" : "none";
  // The overview has the longest queues only.
  const serving = workers.filter((each) => isAlive(each) && each.tags.includes(tag));
  if (serving.length === 0) return "none";
  return serving.every(({ paused, draining }) => paused || draining) ? "held" : "busy";
}

const isAlive = ({ state }: Worker): boolean => state === "RUNNING" || state === "IDLE";

export type Queue = Overview["queues"][number];

/** Jobs of cancelled runs stay in the queue until a worker reads them: they are no waiting runs. */
const waitingIn = ({ waiting, pending }: Queue): number => Math.min(waiting, pending);

function ofQueues(overview: Overview | undefined): Warning[] {
  return (overview?.queues ?? []).flatMap((queue): Warning[] => {
    const { tag, workers, workers_held: held } = queue;
    // A job may be that of a cancelled run.
    const oldestSec = queue.oldest_pending_sec ?? 0;
    const waiting = waitingIn(queue);
    if (waiting === 0) return [];
    if (workers === 0 && held > 0) return [{ kind: "allHeld", tag, waiting, held }];
    if (workers === 0) return [{ kind: "noWorker", tag, waiting, oldestSec }];
    return oldestSec > SLOW_SEC ? [{ kind: "slow", tag, waiting, oldestSec }] : [];
  });
}

function ofAlerts(overview: Overview | undefined): Warning[] {
  const { total = 0, first = [] } = overview?.firing_alerts ?? {};
  return total > 0 ? [{ kind: "alerts", count: total, alerts: first }] : [];
}

function ofWaits({ waits, now }: HomeData): Warning[] {
  const soon = waits.flatMap(({ deadline_at: at }) => (at !== null && at - now < EXPIRING_SEC ? at : []));
  const [deadline] = soon;
  return deadline !== undefined ? [{ kind: "expiring", count: soon.length, deadline }] : [];
}

function ofWorkers(data: HomeData): Warning[] {
  const { workers } = data;
  const named = new Set(ofLostRuns(data).flatMap((each) => (each.kind === "lost" ? each.lostBy : [])));
  const silent = workers
    .filter(({ state, worker_id: id }) => state === "DISCONNECTED" && !named.has(id))
    .map(({ worker_id: id }) => id);
  const failed = workers.filter(isAlive).filter(({ wheel_sync: sync }) => sync.last_result === "error");
  return [
    ...(silent.length > 0 ? [{ kind: "disconnected", workers: silent } as const] : []),
    ...failed.map(({ worker_id: worker, wheel_sync: sync }): Warning => {
      return { kind: "wheels", worker, error: sync.error ?? "" };
    }),
  ];
}

/** An increase of dead letters: several in the last hour, and more than in the hour before. */
function ofLetters({ letters, moreLetters, now }: HomeData): Warning[] {
  const count = letters.filter(({ timestamp }) => timestamp > now - HOUR_SEC).length;
  const before = letters.length - count;
  if (count < SEVERAL_LETTERS || count <= before) return [];
  return [{ kind: "letters", count, before, more: moreLetters }];
}
