import { describe, expect, it } from "vitest";
import type { Decision } from "../../schedules/schedule";
import { byDay, marksOf, occurrencesOf, ownRun, type ScheduleRun } from "./occurrences";

const HOUR = 3600;
const at = (iso: string) => Date.parse(iso) / 1000;

const decision = (fields: Partial<Decision>): Decision => ({
  at: 0,
  by: "schedule",
  outcome: "started",
  scheduled_for: 0,
  count: 1,
  ...fields,
});
const run = (id: string, scheduledFor: number | null, fields: Partial<ScheduleRun> = {}): ScheduleRun => ({
  run_id: id,
  status: "COMPLETED",
  submitted_at: 9 * HOUR,
  cause: { kind: "schedule", id: "nightly", at: scheduledFor },
  ...fields,
});

describe("occurrences", () => {
  it("have one entry each: the run rather than its decision", () => {
    const found = occurrencesOf(
      [run("b", 2 * HOUR, { status: "FAILED" }), run("a", HOUR)],
      [
        decision({ run_id: "a", scheduled_for: HOUR, by: "backfill" }),
        decision({ run_id: "b", scheduled_for: 2 * HOUR }),
        decision({ outcome: "skipped", reason: "overlap", scheduled_for: 3 * HOUR }),
      ],
      [4 * HOUR],
    );
    expect(found.map(({ at, kind, status }) => [at / HOUR, kind, status])).toEqual([
      [1, "run", "COMPLETED"],
      [2, "run", "FAILED"],
      [3, "skipped", undefined],
      [4, "coming", undefined],
    ]);
    expect(found[0]?.by).toBe("backfill");
  });

  it("are skipped because of an earlier run, which is not theirs", () => {
    const skip = decision({ outcome: "skipped", reason: "overlap", run_id: "a", scheduled_for: 2 * HOUR });
    const found = occurrencesOf([run("a", HOUR)], [decision({ run_id: "a", scheduled_for: HOUR }), skip], []);
    expect(found).toMatchObject([
      { at: HOUR, kind: "run", runId: "a" },
      { at: 2 * HOUR, kind: "skipped", blockedBy: "a", runId: undefined },
    ]);
    expect(ownRun(skip)).toBeUndefined();
  });

  it("name the id of a trigger that waited and was skipped", () => {
    const skip = decision({ outcome: "skipped", reason: "replaced", by: "trigger", dropped_run_id: "a" });
    expect(occurrencesOf([], [skip], [])).toMatchObject([
      { kind: "skipped", by: "trigger", droppedId: "a", runId: undefined, blockedBy: undefined },
    ]);
  });

  it("show a run that was deleted since by its decision", () => {
    const [only] = occurrencesOf([], [decision({ run_id: "a", scheduled_for: HOUR })], []);
    expect(only).toMatchObject({ kind: "started", runId: "a" });
  });

  it("no longer wait when they have started", () => {
    const buffered = decision({ outcome: "buffered", scheduled_for: HOUR });
    expect(occurrencesOf([run("a", HOUR)], [buffered], []).map(({ kind }) => kind)).toEqual(["run"]);
    expect(occurrencesOf([], [buffered], []).map(({ kind }) => kind)).toEqual(["buffered"]);
  });

  it("of a run without a nominal time are at its submission", () => {
    expect(occurrencesOf([run("a", null)], [], [])[0]?.at).toBe(9 * HOUR);
  });

  it("ignore outcomes of a later version", () => {
    expect(occurrencesOf([], [decision({ outcome: "postponed" as never })], [])).toEqual([]);
  });
});

describe("a day", () => {
  const night = at("2026-11-17T16:00:00Z");

  it("is that of the schedule's zone", () => {
    expect([...byDay(occurrencesOf([], [], [night]), "Asia/Tokyo").keys()]).toEqual(["2026-11-18"]);
    expect([...byDay(occurrencesOf([], [], [night]), "UTC").keys()]).toEqual(["2026-11-17"]);
  });

  it("shows skips that go on over several days on each of them", () => {
    const skips = decision({ outcome: "skipped", scheduled_for: night, until: night + 48 * HOUR, count: 3 });
    const days = byDay(occurrencesOf([], [skips], []), "UTC");
    expect([...days.keys()]).toEqual(["2026-11-17", "2026-11-18", "2026-11-19"]);
    expect(marksOf(days.get("2026-11-18") ?? [])).toEqual([{ mark: "skipped", count: 1, atLeast: true }]);
  });

  it("shows rare skips on the first and the last day only", () => {
    const skips = decision({ outcome: "skipped", scheduled_for: night, until: night + 168 * HOUR, count: 2 });
    const days = byDay(occurrencesOf([], [skips], []), "UTC");
    expect([...days.keys()]).toEqual(["2026-11-17", "2026-11-24"]);
  });

  it("counts all skips of one day", () => {
    const skips = decision({ outcome: "skipped", scheduled_for: night, until: night + HOUR, count: 4 });
    const days = byDay(occurrencesOf([], [skips], []), "UTC");
    expect(marksOf(days.get("2026-11-17") ?? [])).toEqual([{ mark: "skipped", count: 4, atLeast: false }]);
  });

  it("counts by mark", () => {
    const found = occurrencesOf(
      [run("a", 1), run("b", 2), run("c", 3, { status: "FAILED" })],
      [decision({ outcome: "missed", scheduled_for: 4, count: 5 })],
      [6, 7],
    );
    expect(marksOf(found).map(({ mark, count }) => [mark, count])).toEqual([
      ["COMPLETED", 2],
      ["FAILED", 1],
      ["skipped", 5],
      ["coming", 2],
    ]);
  });
});
