/** Filters and totals of workers. */
import type { Schemas } from "../../api/client";
import { folded } from "../../lib/folding";

export type Worker = Schemas["WorkerView"];

export interface WorkerFilter {
  text: string;
  stopped: boolean;
  hidden: boolean;
}

export const isOnline = (worker: Worker): boolean => worker.state === "RUNNING" || worker.state === "IDLE";
export const hasStopped = (worker: Worker): boolean => worker.state === "STOPPED_GRACEFUL";

/** Disconnected workers are always shown, gracefully stopped ones are not. */
export function shownWorkers(workers: readonly Worker[], wish: WorkerFilter): Worker[] {
  const text = folded(wish.text.trim());
  return workers.filter(
    (worker) =>
      (wish.hidden || !worker.hidden) && (wish.stopped || !hasStopped(worker)) && matches(worker, text),
  );
}

function matches(worker: Worker, text: string): boolean {
  const told = [worker.worker_id, worker.version, worker.host?.name ?? "", ...worker.tags, ...worker.flows];
  return told.some((each) => folded(each).includes(text));
}

export interface Summary {
  online: number;
  slots: number;
  busy: number;
  stopped: number;
  hidden: number;
}

export function summaryOf(workers: readonly Worker[]): Summary {
  const sum = (of: (worker: Worker) => number) => workers.reduce((total, each) => total + of(each), 0);
  return {
    online: sum((each) => Number(isOnline(each))),
    slots: sum((each) => (isOnline(each) ? each.slots : 0)),
    busy: sum((each) => (isOnline(each) ? each.slots_busy : 0)),
    stopped: sum((each) => Number(hasStopped(each) && !each.hidden)),
    hidden: sum((each) => Number(each.hidden)),
  };
}

export type WorkerEvent = Partial<Worker["history"][number]> & { at: number; kind: string };

/** Newest first. A worker that has died reports nothing: its last heartbeat is the last event. */
export function historyOf(worker: Worker): WorkerEvent[] {
  const died: WorkerEvent[] =
    worker.state === "DISCONNECTED" ? [{ at: worker.last_seen_at, kind: "disconnected" }] : [];
  return [...worker.history, ...died].reverse();
}

/** Runs of other tenants occupy slots without being named. */
export const unnamedRuns = (worker: Worker): number =>
  Math.max(0, worker.slots_busy - worker.current_run_ids.length);
