/** The occurrences of a schedule: what became of past ones, and coming ones. */
import type { Decision } from "../../schedules/schedule";
import { addDays, type Day, dayOf } from "../../schedules/zones";

/** A run of the schedule, as a list of runs has it. */
export interface ScheduleRun {
  run_id: string;
  status: string;
  submitted_at?: number | null;
  cause?: { kind: string; id?: string | null; at?: number | null } | null;
}

export interface Occurrence {
  /** Its nominal time; of several, the first. */
  at: number;
  /** Of several, the last. */
  until: number | null;
  count: number;
  atLeast: boolean;
  /** `coming`, an outcome of a decision, or `run`. */
  kind: "coming" | "run" | "started" | "buffered" | "skipped" | "missed" | "failed";
  /** Of a run. */
  status?: string;
  runId?: string;
  /** Of a trigger that waited and was skipped: the id that its run was to have. */
  droppedId?: string;
  /** The earlier run because of which it has not started. */
  blockedBy?: string;
  /** `schedule`, `trigger` or `backfill`. */
  by?: string;
  reason?: string;
  detail?: string;
  /** Of several over days: how many are on one day is not known. */
  isSpread?: boolean;
}

const KINDS = ["started", "buffered", "skipped", "missed", "failed"] as const;
/** The run of a decision. A skip names the earlier run that was still open. */
export const ownRun = ({ outcome, run_id }: Decision): string | undefined =>
  outcome === "skipped" ? undefined : (run_id ?? undefined);

const one = (at: number) => ({ at, until: null, count: 1, atLeast: false });

/** One occurrence per run or reason, oldest first. A run says more than the decision that started it. */
export function occurrencesOf(
  runs: readonly ScheduleRun[],
  decisions: readonly Decision[],
  coming: readonly number[],
): Occurrence[] {
  const decided = new Map(decisions.map((each) => [ownRun(each), each] as const));
  const known = new Set(runs.map((run) => run.run_id));
  const found: Occurrence[] = runs.map((run) => {
    const decision = decided.get(run.run_id);
    const at = run.cause?.at ?? decision?.scheduled_for ?? run.submitted_at ?? 0;
    return { ...one(at), kind: "run", status: run.status, runId: run.run_id, by: decision?.by };
  });
  const started = new Set(found.map(({ at }) => at));
  for (const each of decisions) {
    const kind = KINDS.find((word) => word === each.outcome);
    const runId = ownRun(each);
    // A later version may have other outcomes; what was buffered may have started since.
    if (!kind || (runId && known.has(runId))) continue;
    if (kind === "buffered" && started.has(each.scheduled_for)) continue;
    found.push({
      at: each.scheduled_for,
      until: each.until ?? null,
      count: each.count ?? 1,
      atLeast: each.at_least ?? false,
      kind,
      runId,
      droppedId: each.dropped_run_id ?? undefined,
      blockedBy: runId ? undefined : (each.run_id ?? undefined),
      by: each.by,
      reason: each.reason ?? undefined,
      detail: each.detail ?? undefined,
    });
  }
  for (const at of coming) if (!started.has(at)) found.push({ ...one(at), kind: "coming" });
  return found.sort((a, b) => a.at - b.at);
}

/** By day of the schedule's zone. Several in a row are on their first and last day, and between if they suffice. */
export function byDay(occurrences: readonly Occurrence[], zone: string): Map<Day, Occurrence[]> {
  const days = new Map<Day, Occurrence[]>();
  const add = (day: Day, each: Occurrence) => days.set(day, [...(days.get(day) ?? []), each]);
  for (const each of occurrences) {
    const all = daysBetween(dayOf(each.at, zone), dayOf(each.until ?? each.at, zone));
    const isDaily = each.count >= all.length;
    for (const [index, day] of all.entries()) {
      if (isDaily || index === 0 || index === all.length - 1)
        add(day, all.length > 1 ? { ...each, isSpread: true } : each);
    }
  }
  return days;
}

function daysBetween(first: Day, last: Day): Day[] {
  const days = [first];
  for (let day = addDays(first, 1); day <= last; day = addDays(day, 1)) days.push(day);
  return days;
}

/** What a day of the calendar shows: the status of a run, `skipped` for what has not started, or the kind. */
export const markOf = ({ kind, status }: Occurrence): string =>
  kind === "run" ? (status ?? "") : kind === "missed" || kind === "failed" ? "skipped" : kind;

export interface Mark {
  mark: string;
  count: number;
  /** Whether there are perhaps more. */
  atLeast: boolean;
}

/** The marks of a day with their counts, in order of their first occurrence. */
export function marksOf(occurrences: readonly Occurrence[]): Mark[] {
  const marks = new Map<string, Mark>();
  for (const each of occurrences) {
    const mark = markOf(each);
    const before = marks.get(mark);
    marks.set(mark, {
      mark,
      count: (before?.count ?? 0) + (each.isSpread ? 1 : each.count),
      atLeast: (before?.atLeast ?? false) || each.atLeast || (each.isSpread ?? false),
    });
  }
  return [...marks.values()];
}
