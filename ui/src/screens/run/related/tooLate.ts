/** A cancel that came after the end of its run: the gateway accepts it, and it changes nothing. */
import type { Entry } from "../../../audit/auditApi";
import type { Run } from "../run";

export const isTooLate = (
  { action, outcome, at }: Pick<Entry, "action" | "outcome" | "at">,
  run: Run,
): boolean =>
  action === "run.cancel" &&
  outcome === "accepted" &&
  run.status !== "CANCELLED" &&
  run.end_time != null &&
  at > run.end_time;
