import { describe, expect, it } from "vitest";
import { eventsOf } from "./details/events";
import { ownPieces, piecesOf } from "./details/traceback";
import { truncatedValueOf } from "./details/truncated";
import {
  asText,
  type LogFilter,
  type LogLine,
  levelOf,
  MAX_LINES,
  nothingIn,
  pieces,
  readable,
  STREAMS,
  shown,
  withMore,
} from "./log/logLines";
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
import { place, queuedAt, rowsOf, scaleOf, ticksOf } from "./timeline/bars";
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

describe("the timeline", () => {
  it("has the tasks in order of their start, pending ones last", () => {
    const rows = rowsOf([
      task("later", "RUNNING", { started_at: 5 }),
      task("never", "PENDING"),
      task("first", "SUCCEEDED", { started_at: 3, ended_at: 4 }),
    ]);
    expect(rows.map((row) => row.name)).toEqual(["first", "later", "never"]);
    expect(rows[1]?.bars).toEqual([{ from: 5, to: null, state: "RUNNING" }]);
  });

  it("has a bar for each try", () => {
    const latest_calls = [
      { started_at: 1, ended_at: 2, error: "no" },
      { started_at: 3, ended_at: 4 },
    ];
    const [row] = rowsOf([task("t", "SUCCEEDED", { started_at: 1, ended_at: 4, calls: 2, latest_calls })]);
    expect(row?.bars.map((bar) => bar.state)).toEqual(["FAILED", "SUCCEEDED"]);
  });

  it("has the current try after the failed ones", () => {
    const latest_calls = [{ started_at: 1, ended_at: 2, error: "no" }];
    const [row] = rowsOf([task("t", "RUNNING", { started_at: 1, calls: 2, latest_calls })]);
    expect(row?.bars).toEqual([
      { from: 1, to: 2, state: "FAILED", error: "no" },
      { from: 2, to: null, state: "RUNNING" },
    ]);
  });

  it("spans from the submission to the end, or past now", () => {
    expect(scaleOf(run({ end_time: 110 }), 500).to).toBeCloseTo(110.1);
    expect(scaleOf(run(), 110).to).toBeCloseTo(110.8);
  });

  it("begins when a delayed run came into the queue", () => {
    expect(scaleOf(run({ start_at: 500, start_time: 502, end_time: 512 }), 999).from).toBe(500);
    expect(queuedAt(run({ submitted_at: null }))).toBeNull();
  });

  it("has sleeps and waits as spans of their tasks, but no questions", () => {
    const waits = [
      wait({ kind: "sleep", created_at: 110, decided_at: 170, deadline_at: 170 }),
      wait({ kind: "signal", wait_id: "s", topic: "paid", created_at: 180, state: "open" }),
      wait({ wait_id: "q" }),
    ];
    const [row] = rowsOf([task("t", "WAITING", { started_at: 105 })], waits);
    expect(row?.spans).toMatchObject([
      { kind: "sleep", from: 110, to: 170 },
      { kind: "signal", topic: "paid", from: 180, to: null },
    ]);
  });

  it("places moments in percent, and never outside", () => {
    expect([90, 100, 150, 300].map((at) => place(at, { from: 100, to: 200 }))).toEqual([0, 0, 50, 100]);
  });

  it("has round ticks, and not too many", () => {
    expect(ticksOf({ from: 0, to: 9 }, 6)).toEqual([0, 2, 4, 6, 8]);
    expect(ticksOf({ from: 0, to: 3 * 86_400 }, 6).length).toBeLessThan(8);
  });
});

describe("the log", () => {
  const line = (text: string, fields: Partial<LogLine> = {}): LogLine => ({
    id: text,
    ts: 0,
    task: "t",
    stream: "stdout",
    text,
    attempt: 1,
    ...fields,
  });
  const all: LogFilter = { task: null, streams: new Set(STREAMS), level: "other", search: "" };

  it("finds the level of a line", () => {
    expect(levelOf(line("2026-11-15 ERROR it broke"))).toBe("error");
    expect(levelOf(line("ValueError: bad row"))).toBe("error");
    expect(levelOf(line("UserWarning: old"))).toBe("warning");
    expect(levelOf(line("3 lines dropped", { stream: "note" }))).toBe("warning");
    expect(levelOf(line("no errors were found"))).toBe("other");
  });

  it("is filtered by task, stream, level and text", () => {
    const lines = [
      line("Hello", { task: "a" }),
      line("WARNING world", { stream: "stderr" }),
      line("ERROR", { task: null }),
    ];
    const texts = (filter: Partial<LogFilter>) =>
      shown(lines, { ...all, ...filter }).map((each) => each.text);
    expect(shown(lines, all)).toBe(lines);
    expect(texts({ task: "a" })).toEqual(["Hello"]);
    expect(texts({ streams: new Set(["stderr"]) })).toEqual(["WARNING world"]);
    expect(texts({ level: "warning" })).toEqual(["WARNING world", "ERROR"]);
    expect(texts({ search: "hEL" })).toEqual(["Hello"]);
  });

  it("is split at matches", () => {
    expect(pieces("a Bc b", "b")).toEqual(["a ", "B", "c ", "b", ""]);
    expect(pieces("text", "")).toEqual(["text"]);
    expect(pieces("die Straße", "STRASSE")).toEqual(["die ", "Straße", ""]);
    expect(pieces("ΟΔΟΣ, οδος", "οδος")).toEqual(["", "ΟΔΟΣ", ", ", "οδος", ""]);
  });

  it("says why nothing is shown", () => {
    const lines = [line("Hello", { task: "a" })];
    const none = { lines: [], leftOut: 0 };
    const some = { lines, leftOut: 0 };
    expect(nothingIn(none, null, true)).toBe("ofRun");
    expect(nothingIn(none, "a", true)).toBe("ofTask");
    expect(nothingIn(none, null, false)).toBe("yet");
    expect(nothingIn(some, "b", true)).toBe("ofTask");
    expect(nothingIn(some, "b", false)).toBe("ofTaskYet");
    expect(nothingIn(some, "a", true)).toBe("matches");
    expect(nothingIn(some, null, true)).toBe("matches");
    expect(nothingIn({ lines, leftOut: 1 }, "b", true)).toBe("matchesHere");
  });

  it.each([
    ["\x1b[31mred\x1b[0m", "red"],
    ["\x1b[1;38;5;208mbold\x1b[m and plain", "bold and plain"],
    ["\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "link"],
    ["\x1b]0;title\x07text", "text"],
    ["\x1b[2K\x1b[1Gdone", "done"],
    ["\x1b(Bascii\x1b7", "ascii"],
    ["[31m is text", "[31m is text"],
  ])("has no escape sequences: %j", (text, read) => expect(readable(line(text)).text).toBe(read));

  it("is bounded, and counts dropped lines", () => {
    const many = withMore({ lines: [], leftOut: 3 }, Array(MAX_LINES).fill(line("old")));
    expect(many).toMatchObject({ leftOut: 3, lines: { length: MAX_LINES } });
    const more = withMore(many, Array(20_000).fill(line("new")));
    expect(more).toMatchObject({ leftOut: 20_003, lines: { length: MAX_LINES } });
    expect(more.lines.at(-1)?.text).toBe("new");
  });

  it("can be downloaded", () => {
    expect(asText([line("Hello")])).toBe("1970-01-01T00:00:00.000Z stdout t | Hello\n");
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
