import { describe, expect, it } from "vitest";
import { eventsOf } from "./details/events";
import { ownPieces, piecesOf } from "./details/traceback";
import { truncatedValueOf } from "./details/truncated";
import {
  counted,
  neighbours,
  type Run,
  type Task,
  type TaskRecord,
  tasksOf,
  type Wait,
  withoutApiCall,
} from "./run";
import { differs } from "./useWaits";

const task = (name: string, state: Task["state"], record: TaskRecord = {}): Task => ({ name, state, record });

function run(fields: Partial<Run> = {}): Run {
  return {
    run_id: "r",
    flow_name: "etl",
    status: "RUNNING",
    params: {},
    tasks: {},
    submitted_at: 100,
    start_time: 102,
    end_time: null,
    attempt: 1,
    worker_id: "w",
    ...fields,
  } as Run;
}

const wait = (fields: Partial<Wait>): Wait =>
  ({ wait_id: "w", task: "t", name: "n", state: "open", created_at: 1, decided_at: null, ...fields }) as Wait;

const DIAMOND = [
  task("start", "SUCCEEDED"),
  task("left", "RUNNING", { after: ["start"] }),
  task("right", "FAILED", { after: ["start"] }),
  task("end", "PENDING", { after: ["left", "right"] }),
];

describe("tasks", () => {
  it("have their record, or an empty one", () => {
    const tasks = tasksOf(run({ tasks: { a: "RUNNING", b: "PENDING" }, task_records: { a: { calls: 2 } } }));
    expect(tasks).toEqual([task("a", "RUNNING", { calls: 2 }), task("b", "PENDING")]);
  });

  it("are interrupted while the worker of the run is lost", () => {
    const tasks = tasksOf(run({ tasks: { a: "SUCCEEDED", b: "RUNNING", c: "PENDING" } }), true);
    expect(tasks.map(({ state }) => state)).toEqual(["SUCCEEDED", "INTERRUPTED", "PENDING"]);
    expect(counted(tasks)[0]).toEqual(["INTERRUPTED", 1]);
  });

  it("that wait for a person have the word of their run", () => {
    const open_waits = [
      { kind: "human", wait_id: "1", name: "ok", task: "a" },
      { kind: "signal", wait_id: "2", name: "paid", task: "b" },
    ] as Run["open_waits"];
    const tasks = tasksOf(run({ tasks: { a: "WAITING", b: "WAITING", c: "RUNNING" }, open_waits }));
    expect(tasks.map(({ state }) => state)).toEqual(["WAITING_HUMAN", "WAITING", "RUNNING"]);
    expect(counted(tasks)).toEqual([
      ["WAITING_HUMAN", 1],
      ["WAITING", 1],
      ["RUNNING", 1],
    ]);
  });

  it("are counted by state, the most important first", () => {
    expect(counted(DIAMOND)).toEqual([
      ["FAILED", 1],
      ["RUNNING", 1],
      ["SUCCEEDED", 1],
      ["PENDING", 1],
    ]);
  });

  it("have predecessors and successors", () => {
    expect([...neighbours(DIAMOND, "left")].sort()).toEqual(["end", "start"]);
    expect(neighbours(DIAMOND, null).size).toBe(0);
  });
});

describe("events", () => {
  it("are in order, with tries, questions and the end", () => {
    const latest_calls = [
      { started_at: 102, ended_at: 103, error: "no luck" },
      { started_at: 104, ended_at: 105 },
    ];
    const wait = {
      wait_id: "w",
      task: "ask",
      message: "Yes?",
      state: "answered",
      created_at: 106,
      decided_at: 108,
      decided_by: { name: "Ann" },
      decision: null,
    } as unknown as Wait;
    const events = eventsOf(
      run({
        status: "CANCELLED",
        end_time: 110,
        cancel_requested_at: 109,
        cancel_reason: "enough",
        attempt: 2,
      }),
      [task("t", "SUCCEEDED", { latest_calls })],
      [wait],
    );
    expect(events.map((each) => each.kind)).toEqual([
      "submitted",
      "started",
      "restarted",
      "retried",
      "asked",
      "answered",
      "cancelRequested",
      "cancelled",
    ]);
    expect(events[5]?.who).toBe("Ann");
  });

  it("have sleeps and signals, and what ended them", () => {
    const events = eventsOf(
      run(),
      [],
      [
        wait({ kind: "sleep", created_at: 110, decided_at: 120, state: "expired", deadline_at: 120 }),
        wait({ kind: "signal", topic: "paid", created_at: 130, decided_at: 140, state: "answered" }),
        wait({ kind: "event", topic: "shipped", created_at: 150, decided_at: 160, state: "expired" }),
        wait({ kind: "signal", topic: "late", created_at: 170, state: "open" }),
      ],
    );
    expect(events.slice(2).map(({ kind, topic, until }) => [kind, topic, until ?? null])).toEqual([
      ["sleeps", undefined, 120],
      ["wakes", undefined, null],
      ["waitsSignal", "paid", null],
      ["signal", "paid", null],
      ["waitsEvent", "shipped", null],
      ["waitExpired", "shipped", null],
      ["waitsSignal", "late", null],
    ]);
    expect(events.every(({ waitId }) => waitId === undefined)).toBe(true);
  });
});

describe("the list of waits", () => {
  const waiting = run({ open_waits: [{ wait_id: "w" }] as Run["open_waits"] });

  it("is read again until it has the open waits of the run, and no others", () => {
    expect(differs(waiting, [])).toBe(true);
    expect(differs(waiting, [wait({ state: "answered" })])).toBe(true);
    expect(differs(waiting, [wait({}), wait({ wait_id: "old", state: "answered" })])).toBe(false);
    expect(differs(run({ open_waits: [] }), [wait({})])).toBe(true);
  });

  it("is not read again and again if it is too long to have them all", () => {
    const many = Array.from({ length: 200 }, (_, index) => wait({ wait_id: `w${index}` }));
    expect(differs(waiting, many)).toBe(false);
  });
});

describe("a traceback", () => {
  const text = `Traceback (most recent call last):
  File "/x/site-packages/pyoco/core/engine.py", line 1, in run
    result = task.func()
             ^^^^^^^^^^^
  File "/home/me/flows.py", line 7, in load
    raise ValueError("bad row")
ValueError: bad row
`;

  it("shows the frames of the flow, and the error", () => {
    const shown = ownPieces(piecesOf(text))
      .flatMap((each) => each.lines)
      .join("\n");
    expect(shown).toContain("flows.py");
    expect(shown).toContain("ValueError: bad row");
    expect(shown).not.toContain("engine.py");
  });

  it("is complete if no frame belongs to the flow", () => {
    const foreign = text.replace("/home/me/flows.py", "/x/lib/python3.11/json/decoder.py");
    expect(ownPieces(piecesOf(foreign))).toEqual(piecesOf(foreign));
  });
});

describe("texts of a run", () => {
  it("omit the API call of an expired question", () => {
    const said =
      "The run has failed: nobody answered in time: task pay asked 'Pay?' (ok) until noon. POST /runs/ab12/retry asks again";
    expect(withoutApiCall(said)).toBe(
      "The run has failed: nobody answered in time: task pay asked 'Pay?' (ok) until noon.",
    );
    expect(withoutApiCall("The time limit was exceeded: 3 s")).toBe("The time limit was exceeded: 3 s");
  });

  it("show the beginning of a truncated value", () => {
    expect(truncatedValueOf({ truncated: true, bytes: 163_000, preview: "[1," })).toEqual({
      bytes: 163_000,
      preview: "[1,",
    });
    expect(truncatedValueOf({ truncated: true, bytes: 1, preview: "x", more: 1 })).toBeNull();
    expect(truncatedValueOf([1, 2, 3])).toBeNull();
    expect(truncatedValueOf(null)).toBeNull();
  });
});
