import { describe, expect, it } from "vitest";
import type { Run } from "../run/run";
import { change, differs, isSameTime, taskRows, tasksDiffer, valueRows } from "./compare";

const run = (tasks: Record<string, [string, number | null]>): Run =>
  ({
    status: "COMPLETED",
    end_time: 100,
    tasks: Object.fromEntries(Object.entries(tasks).map(([name, [state]]) => [name, state])),
    task_records: Object.fromEntries(
      Object.entries(tasks).map(([name, [, took]]) => [
        name,
        took === null ? {} : { started_at: 10, ended_at: 10 + took, output: name },
      ]),
    ),
  }) as unknown as Run;

describe("comparing values", () => {
  it("has a row for each simple value of either", () => {
    expect(
      valueRows({ n: 1, at: { x: [1, 2] }, gone: true }, { n: 1, at: { x: [1, 3] }, new: null }),
    ).toEqual([
      { path: "n", a: "1", b: "1" },
      { path: "at.x[0]", a: "1", b: "1" },
      { path: "at.x[1]", a: "2", b: "3" },
      { path: "gone", a: "true", b: null },
      { path: "new", a: null, b: "null" },
    ]);
  });

  it("distinguishes an empty object, a text and nothing", () => {
    const rows = valueRows({ a: {}, b: "1", c: [] }, { a: [], b: 1 });
    expect(rows.map(differs)).toEqual([true, true, true]);
    expect(valueRows(undefined, undefined)).toEqual([]);
    expect(valueRows("x", "y")).toEqual([{ path: "", a: '"x"', b: '"y"' }]);
  });
});

it.each([
  [0.359, 0.36, true],
  [1.41, 1.38, true],
  [1.449, 1.351, true],
  [0.3, 0.36, false],
  [1.4, 1.5, false],
  [null, 0, false],
  [null, null, true],
])("durations of %s and %s seconds are the same: %s", (a, b, same) => {
  expect(isSameTime(a, b)).toBe(same);
  expect(isSameTime(b, a)).toBe(same);
});

describe("comparing tasks", () => {
  it("takes an output of null as none", () => {
    const [one, other] = [run({ load: ["SUCCEEDED", 2] }), run({ load: ["SUCCEEDED", null] })];
    Object.assign(one.task_records?.load ?? {}, { output: null });
    const [row] = taskRows(one, other);
    expect(valueRows(row?.a?.output, row?.b?.output)).toEqual([]);
  });

  it("pairs them by name and says how much longer the second took", () => {
    const rows = taskRows(
      run({ load: ["SUCCEEDED", 2], send: ["FAILED", 1] }),
      run({ load: ["SUCCEEDED", 5], check: ["PENDING", null] }),
    );
    expect(rows.map(({ name, longer }) => [name, longer])).toEqual([
      ["load", 3],
      ["send", null],
      ["check", null],
    ]);
    expect(rows[1]?.b).toBeNull();
    expect(rows[2]?.b?.state).toBe("NOT_RUN");
  });

  it("marks those that ended otherwise or took another time", () => {
    const rows = taskRows(
      run({ same: ["SUCCEEDED", 2], slow: ["SUCCEEDED", 0], bad: ["SUCCEEDED", 1], only: ["SUCCEEDED", 1] }),
      run({ same: ["SUCCEEDED", 2.01], slow: ["SUCCEEDED", 1.1], bad: ["FAILED", 1] }),
    );
    expect(rows.filter(tasksDiffer).map(({ name }) => name)).toEqual(["slow", "bad", "only"]);
  });

  it("has percents only where there is something to compare with", () => {
    expect(change(2, 3)).toBe(50);
    expect(change(4, 3)).toBe(-25);
    expect(change(0, 3)).toBeNull();
    expect(change(null, 3)).toBeNull();
  });
});
