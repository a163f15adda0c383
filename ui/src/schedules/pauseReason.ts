/** Why the gateway paused a schedule (src/pyoco_server/schedules/schedule_decider.py). */
export interface PauseReason {
  kind: "failed" | "notStarted";
  runId: string;
}

/** Null for the note of a person. */
export function pauseReason(note: string): PauseReason | null {
  const found = /^paused because run (\S+) (failed|could not be started)$/.exec(note);
  if (!found?.[1]) return null;
  return { kind: found[2] === "failed" ? "failed" : "notStarted", runId: found[1] };
}
