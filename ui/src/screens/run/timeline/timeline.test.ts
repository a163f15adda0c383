import { describe, expect, it } from "vitest";
import type { Run, Task, TaskRecord, Wait } from "../run";
import { axisOf, gapsOf, lasting, momentAt, positionAt, queuedAt } from "./axis";
import { attemptsOf, rowsOf } from "./bars";
import { isWhole, moved, place, scaleOf, ticksOf, visiblePart, WHOLE, zoomed } from "./scale";

const task = (name: string, state: Task["state"], record: TaskRecord = {}): Task => ({ name, state, record });
const done = (name: string, started_at: number, ended_at: number) =>
  task(name, "SUCCEEDED", { started_at, ended_at });

const run = (fields: Partial<Run> = {}): Run =>
  ({ status: "RUNNING", submitted_at: 100, start_time: 102, end_time: null, attempt: 1, ...fields }) as Run;

const wait = (fields: Partial<Wait>): Wait =>
  ({ wait_id: "w", task: "t", name: "n", state: "open", created_at: 1, decided_at: null, ...fields }) as Wait;

const axis = (of: Run, tasks: Task[], { now = 999, waits = [] as Wait[], chosen = {}, width = 600 } = {}) =>
  axisOf(of, rowsOf(tasks, waits), { now, width, chosen: new Map(Object.entries(chosen)) });

describe("rows", () => {
  it("have the tasks in order of their start, pending ones last", () => {
    const rows = rowsOf([
      task("later", "RUNNING", { started_at: 5 }),
      task("never", "PENDING"),
      done("first", 3, 4),
    ]);
    expect(rows.map((row) => row.name)).toEqual(["first", "later", "never"]);
    expect(rows[1]?.bars).toEqual([{ from: 5, to: null, state: "RUNNING" }]);
  });

  it("of an interrupted task end when its worker was last heard of", () => {
    const [row] = rowsOf([task("t", "INTERRUPTED", { started_at: 5 })], [], 9);
    expect(row?.bars).toEqual([{ from: 5, to: 9, state: "INTERRUPTED" }]);
    expect(row?.took).toBe(4);
  });

  it("have a bar for each try", () => {
    const latest_calls = [
      { started_at: 1, ended_at: 2, error: "no" },
      { started_at: 3, ended_at: 4 },
    ];
    const [row] = rowsOf([task("t", "SUCCEEDED", { started_at: 1, ended_at: 4, calls: 2, latest_calls })]);
    expect(row?.bars.map((bar) => bar.state)).toEqual(["FAILED", "SUCCEEDED"]);
  });

  it("have the current try after the failed ones", () => {
    const latest_calls = [{ started_at: 1, ended_at: 2, error: "no" }];
    const [row] = rowsOf([task("t", "RUNNING", { started_at: 1, calls: 2, latest_calls })]);
    expect(row?.bars).toEqual([
      { from: 1, to: 2, state: "FAILED", error: "no" },
      { from: 2, to: null, state: "RUNNING" },
    ]);
  });

  it("have sleeps, waits and questions as spans", () => {
    const waits = [
      wait({ kind: "sleep", created_at: 110, decided_at: 170, deadline_at: 170 }),
      wait({ kind: "signal", wait_id: "s", topic: "paid", created_at: 180, state: "open" }),
      wait({ wait_id: "q", created_at: 190 }),
    ];
    const [row] = rowsOf([task("t", "WAITING", { started_at: 105 })], waits);
    expect(row?.spans).toMatchObject([
      { kind: "sleep", from: 110, to: 170 },
      { kind: "signal", topic: "paid", from: 180, to: null },
      { kind: "human", from: 190, to: null },
    ]);
  });

  it("of attempts name the worker that was lost, and when", () => {
    const earlier_attempts = [
      { number: 1, worker_id: "w1", started_at: 102, last_heartbeat_at: 110, handed_back: false },
    ];
    const attempts = attemptsOf(
      run({ earlier_attempts, attempt: 2, worker_id: "w2", attempt_started_at: 120 } as Partial<Run>),
    );
    expect(attempts).toEqual([
      { number: 1, worker: "w1", from: 102, to: 110, end: "lost" },
      { number: 2, worker: "w2", from: 120, to: null, end: null },
    ]);
  });
});

describe("gaps", () => {
  const kinds = (of: Run, tasks: Task[], waits: Wait[] = []) =>
    gapsOf(of, rowsOf(tasks, waits), 999).map(({ kind, from, to }) => [kind, from, to]);

  it("are the time in the queue, and the time before a delayed start", () => {
    expect(kinds(run({ end_time: 110 }), [done("t", 102, 110)])).toEqual([["queue", 100, 102]]);
    const delayed = run({ start_at: 500, start_time: 502, end_time: 512 });
    expect(kinds(delayed, [done("t", 502, 512)])).toEqual([
      ["delay", 100, 500],
      ["queue", 500, 502],
    ]);
    expect(queuedAt(run({ submitted_at: null }))).toBeNull();
  });

  it("are a sleep inside of a task, and the time without a worker", () => {
    const waits = [wait({ task: "a", kind: "sleep", created_at: 110, decided_at: 170 })];
    const tasks = [done("a", 102, 180), done("b", 240, 250)];
    expect(kinds(run({ end_time: 250 }), tasks, waits)).toEqual([
      ["queue", 100, 102],
      ["wait", 110, 170],
      ["idle", 180, 240],
    ]);
  });

  it("are none between the tasks of a short run", () => {
    const tasks = [done("a", 102, 102.01), done("b", 102.2, 102.21)];
    expect(kinds(run({ end_time: 102.21 }), tasks)).toEqual([["queue", 100, 102]]);
  });

  it("are none while another task executes", () => {
    const waits = [wait({ task: "a", kind: "sleep", created_at: 110, decided_at: 170 })];
    const tasks = [done("a", 102, 180), done("b", 105, 180)];
    expect(kinds(run({ end_time: 180 }), tasks, waits)).toEqual([["queue", 100, 102]]);
  });
});

describe("the axis", () => {
  const pieces = (...given: Parameters<typeof axis>) =>
    axis(...given).pieces.map(({ from, to, gap, collapsed }) => [from, to, gap?.kind, collapsed]);

  it("begins with the submission, and shows a short queue to scale", () => {
    expect(pieces(run({ end_time: 112 }), [done("t", 102, 112)])).toEqual([
      [100, 102, "queue", false],
      [102, 112, undefined, false],
    ]);
  });

  it("collapses a gap that would squeeze the rest, unless the user has expanded it", () => {
    const waited = run({ start_time: 400, end_time: 410 });
    const tasks = [done("t", 400, 410)];
    const collapsed = axis(waited, tasks);
    expect(collapsed.pieces[0]).toMatchObject({ collapsed: true, right: 84 / 600 });
    expect(axis(waited, tasks, { chosen: { queue: false } }).pieces[0]?.collapsed).toBe(false);
    expect(pieces(run({ end_time: 112 }), [done("t", 102, 112)], { chosen: { queue: true } })[0]?.[3]).toBe(
      true,
    );
  });

  it("collapses as many of several gaps as needed, the longest first", () => {
    const tasks = [done("a", 100, 110), done("b", 117, 120), done("c", 126, 130), done("d", 150, 160)];
    expect(pieces(run({ start_time: 100, end_time: 160 }), tasks)).toEqual([
      [100, 110, undefined, false],
      [110, 117, "idle", false],
      [117, 120, undefined, false],
      [120, 126, "idle", false],
      [126, 130, undefined, false],
      [130, 150, "idle", true],
      [150, 160, undefined, false],
    ]);
  });

  it("collapses nothing of a run that has not started", () => {
    expect(pieces(run({ start_time: null }), [], { now: 500 })).toEqual([[100, 500, "queue", false]]);
  });

  it("leaves room for what executes, also at the end of a wait of days", () => {
    const waits = [wait({ task: "a", kind: "sleep", created_at: 102.05 })];
    const found = axis(run({ status: "WAITING" }), [task("a", "WAITING", { started_at: 102 })], {
      now: 604_902,
      waits,
    });
    const busy = found.pieces.find(({ gap }) => !gap);
    expect((busy?.right ?? 0) - (busy?.left ?? 0)).toBeGreaterThan(0.5);
  });

  it.each([[0.05], [60], [604_800]])(
    "places the moments of a run of %d seconds, and finds them",
    (seconds) => {
      const found = axis(run({ start_time: 100.001, end_time: 100 + seconds }), [
        done("t", 100.001, 100 + seconds),
      ]);
      for (const share of [0, 0.25, 0.5, 0.99]) {
        const at = 100 + share * seconds;
        expect(momentAt(found, positionAt(found, at))).toBeCloseTo(at, 5);
      }
      expect(positionAt(found, 0)).toBe(0);
      expect(positionAt(found, 100 + seconds)).toBeCloseTo(0.99);
    },
  );

  it("gives many collapsed gaps at most half of the width", () => {
    const tasks = Array.from({ length: 40 }, (_, at) => done(`t${at}`, 102 + 100 * at, 103 + 100 * at));
    const found = axis(run({ end_time: 4003 }), tasks, { width: 240 });
    const collapsed = found.pieces.filter((each) => each.collapsed);
    expect(collapsed.reduce((sum, { left, right }) => sum + right - left, 0)).toBeLessThan(0.51);
  });
});

describe("the view", () => {
  const whole = () => scaleOf(axis(run({ end_time: 200, start_time: 100 }), [done("t", 100, 200)]), WHOLE);

  it("places moments in percent; what is outside has no part", () => {
    const scale = whole();
    expect(place(150, scale)).toBeCloseTo(49.5);
    expect(visiblePart(0, 90, scale)).toMatchObject({ left: 0, width: 0 });
    const near = scaleOf(scale.axis, { from: 150, to: 160 });
    expect(visiblePart(100, 149, near)).toBeNull();
    expect(visiblePart(100, 155, near)).toMatchObject({ left: -1 });
    expect(visiblePart(100, 155, near)?.right).toBeCloseTo(50);
  });

  it("zooms around the anchor, moves within the axis, and returns to the whole", () => {
    const scale = whole();
    const view = zoomed(scale, 4, 0.5);
    const near = scaleOf(scale.axis, view);
    expect(near.right - near.left).toBeCloseTo(0.25);
    expect((near.left + near.right) / 2).toBeCloseTo(0.5);
    expect(scaleOf(scale.axis, moved(near, -100)).left).toBe(0);
    expect(isWhole(zoomed(near, 0.01, 0.3))).toBe(true);
    expect(isWhole(zoomed(scale, 1e12, 0.5))).toBe(false);
  });

  it("that shows the end of a running run follows it", () => {
    const tasks = [task("t", "RUNNING", { started_at: 102 })];
    const before = scaleOf(axis(run(), tasks, { now: 112 }), WHOLE);
    const view = zoomed(before, 4, 1);
    expect(view.to).toBeNull();
    expect(scaleOf(axis(run(), tasks, { now: 200 }), view).right).toBe(1);
  });

  it("has round ticks since the submission, and none in collapsed gaps", () => {
    const labels = (scale: ReturnType<typeof whole>) => ticksOf(scale, 6).map(({ label }) => label);
    expect(labels(whole())).toEqual(["0s", "30s", "1m", "1m 30s"]);
    const waited = axis(run({ start_time: 4000, end_time: 4010 }), [done("t", 4000, 4010)]);
    expect(labels(scaleOf(waited, WHOLE))).toEqual(["1h 5m", "+2s", "+4s", "+6s", "+8s", "+10s"]);
    const short = axis(run({ start_time: 100, end_time: 100.05 }), [done("t", 100, 100.05)]);
    expect(labels(scaleOf(short, WHOLE))).toEqual(["0s", "10ms", "20ms", "30ms", "40ms", "50ms"]);
  });
});

it("counts an open wait in the seconds of the page's clock", () => {
  // The bar is drawn up to 12.7; head, banner and figures say what the clock said at 11.9.
  expect(lasting(2, 12.7, 11.9)).toBe(9);
  expect(lasting(12, 12.7, 11.9)).toBe(0);
  expect(lasting(2, 12.7, null)).toBeCloseTo(10.7);
});
