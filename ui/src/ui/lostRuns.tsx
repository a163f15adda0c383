/** Runs that are stored as running although their worker is lost, as the gateway's overview reports them. */
import { createContext, type ReactNode, useContext, useMemo } from "react";
import { api } from "../api/client";
import { useRead } from "../api/queries";
import { StatusBadge } from "./status";

interface HeldRun {
  status: string;
  tag: string;
  worker_id: string | null;
}

const EVERY_MS = 5_000;
/** Only these have a worker. */
const isHeld = ({ status }: { status: string }) => status === "RUNNING" || status === "CANCELLING";
const keyOf = (worker: string, tag: string) => JSON.stringify([worker, tag]);

const Lost = createContext<ReadonlySet<string>>(new Set());

interface LostRunsProps {
  /** Those that are shown. */
  runs: Iterable<HeldRun>;
  children: ReactNode;
}

/** The workers and tags whose runs are lost. */
function useLost(runs: Iterable<HeldRun>): ReadonlySet<string> {
  const { data } = useRead(
    ["lost-runs"],
    (signal) => api.GET("/overview", { params: { query: { window: "1h" } }, signal }),
    { every: EVERY_MS, enabled: [...runs].some(isHeld), frame: true },
  );
  // The same set for the same runs: each badge is drawn again with another one.
  const found = JSON.stringify((data?.lost_runs ?? []).map(({ worker_id, tag }) => keyOf(worker_id, tag)));
  return useMemo(() => new Set<string>(JSON.parse(found)), [found]);
}

const isAmong = (lost: ReadonlySet<string>, run: HeldRun): boolean =>
  isHeld(run) && run.worker_id !== null && lost.has(keyOf(run.worker_id, run.tag));

/** Whether no worker executes the run because its own is lost. */
export const useIsLost = (run: HeldRun): boolean => isAmong(useLost([run]), run);

/** Its status badges show which runs are lost. */
export function LostRuns({ runs, children }: LostRunsProps) {
  return <Lost value={useLost(runs)}>{children}</Lost>;
}

/** The status of a run, within `LostRuns`. */
export function RunStatusBadge({ run }: { run: HeldRun }) {
  const isLost = isAmong(useContext(Lost), run);
  return <StatusBadge status={run.status} lostWorker={isLost ? run.worker_id : null} />;
}
