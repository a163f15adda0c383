/** How long runs wait. */
import { duration, wholeSeconds } from "../../i18n/time";
import type { Queue } from "./warnings";

/** A waiting time, without tenths of a second. */
export const age = (seconds: number): string => (seconds < 10 ? wholeSeconds(seconds) : duration(seconds));

/** How long the oldest queued run waits; null: there is none. */
export function oldestPendingSec(queues: readonly Queue[]): number | null {
  const ages = queues.flatMap(({ oldest_pending_sec: sec }) => sec ?? []);
  return ages.length > 0 ? Math.max(...ages) : null;
}
