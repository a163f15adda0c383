/** The waits of a run: open ones, and what became of the others. */
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { useRead } from "../../api/queries";
import type { Run, Wait } from "./run";

const KINDS: Schemas["WaitKind"][] = ["human", "sleep", "signal", "event"];
const STATES: Schemas["WaitState"][] = ["open", "answered", "expired", "cancelled", "withdrawn"];
const LIMIT = 200;
const AGAIN_MS = 700;

export function useWaits(run: Run): readonly Wait[] {
  const [isBehind, setBehind] = useState(false);
  const { data } = useRead(
    // Waits change with the status and the waits of the run.
    ["waits", run.run_id, run.status, run.generation, run.open_waits?.length ?? 0],
    (signal) =>
      api.GET("/waits", {
        params: { query: { run_id: run.run_id, kind: KINDS, state: STATES, limit: LIMIT } },
        signal,
      }),
    { enabled: run.open_waits !== undefined, keep: true, every: isBehind ? AGAIN_MS : undefined },
  );
  const waits = data?.items ?? NONE;
  const behind = data !== undefined && differs(run, waits);
  if (behind !== isBehind) setBehind(behind);
  return waits;
}

const NONE: readonly Wait[] = [];

/** Whether the list is older than the run: its index follows a moment later. */
export function differs(run: Run, waits: readonly Wait[]): boolean {
  if (waits.length >= LIMIT) return false;
  const listed = new Set(waits.filter(({ state }) => state === "open").map(({ wait_id }) => wait_id));
  const open = run.open_waits ?? [];
  return open.length !== listed.size || open.some(({ wait_id }) => !listed.has(wait_id));
}
