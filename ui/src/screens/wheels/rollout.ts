/** Which workers have a wheel, which cannot install it and why: as the workers report it. */
import type { Schemas } from "../../api/client";

type Worker = Schemas["WorkerView"];

/** What a worker lacks, as far as it says that; `reason` is in English. */
export interface Refusal {
  worker: string;
  needs: "python" | "platform" | null;
  expected: string;
  has: string;
  reason: string;
}

export interface WheelWorkers {
  installed: { worker: string; missing: readonly string[] }[];
  refused: Refusal[];
  /** They install it before their next run. */
  pending: string[];
}

export interface Rollout {
  of: (wheel: { nuid: string; name: string }) => WheelWorkers;
  /** Online workers that install no wheels. */
  off: number;
}

export function rolloutOf(workers: readonly Worker[]): Rollout {
  const syncing = workers.filter(({ wheel_sync: sync }) => sync.enabled);
  return {
    off: workers.length - syncing.length,
    of: ({ nuid, name }) => {
      const found: WheelWorkers = { installed: [], refused: [], pending: [] };
      for (const worker of syncing) place(found, worker, nuid, name);
      return found;
    },
  };
}

function place(found: WheelWorkers, worker: Worker, nuid: string, name: string): void {
  const { worker_id: id, wheel_sync: sync } = worker;
  const installed = sync.installed_wheels.find((each) => each.nuid === nuid);
  const skipped = sync.skipped_incompatible.find((each) => each.name === name);
  const failed = sync.failed_wheels.find((each) => each.name === name);
  if (installed) found.installed.push({ worker: id, missing: installed.missing });
  else if (skipped) found.refused.push(refusalOf(worker, skipped));
  else if (failed)
    found.refused.push({ worker: id, needs: null, expected: "", has: "", reason: failed.reason });
  else if (sync.selected_wheels.includes(name)) found.pending.push(id);
}

function refusalOf(worker: Worker, skipped: Worker["wheel_sync"]["skipped_incompatible"][number]): Refusal {
  const { needs, expected, reason } = skipped;
  const known = expected !== null && worker.host !== null && (needs === "python" || needs === "platform");
  const has = needs === "python" ? worker.host?.python : worker.host?.system;
  return {
    worker: worker.worker_id,
    needs: known ? needs : null,
    expected: expected ?? "",
    has: has ?? "",
    reason,
  };
}
