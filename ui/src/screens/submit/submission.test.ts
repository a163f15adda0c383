import { describe, expect, it } from "vitest";
import { Attempt } from "../../api/idempotencyKey";
import { Problem } from "../../api/problem";
import { errorPosition } from "../../lib/jsonPosition";
import { parseParams, runBody, runJson, sorted, startOf, tagsIn, yamlForm } from "./submission";

const draft = {
  flowName: " etl ",
  params: "{}",
  yaml: "version: 1\n",
  tag: "",
  tags: "",
  timeoutSec: "",
  start: "now",
  startAt: "",
  startIn: "",
  startUnit: "minutes",
};

describe("params", () => {
  it("are a JSON object, or nothing", () => {
    expect(parseParams(' {"a": 1.0}\n')).toEqual({ json: '{"a": 1.0}' });
    expect(parseParams("  \n")).toEqual({ json: "{}" });
    for (const other of ["[1]", "null", "3"]) expect(parseParams(other)).toEqual({ place: null });
  });

  it("have the position of a syntax error", () => {
    expect(parseParams('{\n  "a": x\n}')).toEqual({ place: { line: 2, column: 8 } });
    expect(parseParams("{")).toEqual({ place: { line: 1, column: 2 } });
  });

  it.each([
    ['{"a": 1,}', 8],
    ["{'a': 1}", 1],
    ['{"a" 1}', 5],
    ['{"a": 1} x', 9],
    ['{"a": "\n"}', 6],
    ["[1, 2", 5],
    ["[01]", 2],
  ])("stop being JSON in %s at %d", (text, position) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(errorPosition(text)).toBe(position);
  });

  it.each(['{"a": [1, -2.5e3, {"b": "\\u00e9"}], "c": {}}', " [ ] ", '"x"', "true"])(
    "are JSON in %s",
    (text) => {
      expect(JSON.parse(text)).toBeDefined();
      expect(errorPosition(text)).toBeNull();
    },
  );
});

describe("a request", () => {
  it("has only what was given", () => {
    expect(runBody(draft)).toEqual({ flow_name: "etl" });
    expect(runBody({ ...draft, tag: "gpu", tags: "a, b,", timeoutSec: "1.5" })).toEqual({
      flow_name: "etl",
      tag: "gpu",
      tags: ["a", "b"],
      timeout_sec: 1.5,
    });
    expect([...yamlForm(draft).keys()]).toEqual(["flow_name", "workflow"]);
  });

  it("has the start, if it is not now", () => {
    const at = { ...draft, start: "at", startAt: "2026-11-18T02:00" };
    expect(runBody(at).start_at).toBe(new Date(2026, 10, 18, 2).getTime() / 1000);
    const later = { ...draft, start: "in", startIn: "1.5", startUnit: "hours" };
    expect(runBody(later)).toEqual({ flow_name: "etl", delay_sec: 5400 });
    expect(yamlForm(later).get("delay_sec")).toBe("5400");
    expect(startOf({ ...draft, start: "in" }).delay_sec).toBeNaN();
    expect(startOf({ ...draft, start: "at" }).start_at).toBeNaN();
  });

  it("has the params as they were typed", () =>
    expect(runJson(draft, '{"id": 12345678901234567890, "x": 1.0}')).toBe(
      '{"flow_name":"etl","params":{"id": 12345678901234567890, "x": 1.0}}',
    ));

  it("splits tags at commas", () => expect(tagsIn(" a ,,b ")).toEqual(["a", "b"]));
});

describe("an error of the gateway", () => {
  it("is mapped to its field", () => {
    const problem = new Problem("Not valid", "", 422, "ERR-PYOCO-0002", [
      { field: "tag", message: "wanted letters" },
      { field: "params.rows", message: "too deep" },
      { field: "tasks.a.use", message: "unknown", line: 4, column: 7 },
      { field: "workflow", message: "bad indentation", line: 9 },
      { field: "colour", message: "unknown field" },
    ]);
    expect(sorted(problem)).toEqual({
      fields: { tag: "wanted letters", params: "params.rows: too deep" },
      marks: [
        { line: 4, column: 7, message: "tasks.a.use: unknown" },
        { line: 9, column: 1, message: "bad indentation" },
      ],
      rest: [{ field: "colour", message: "unknown field" }],
    });
    expect(sorted(null)).toEqual({ fields: {}, marks: [], rest: [] });
  });
});

describe("the key of a submission", () => {
  it("is the same for a retry, and changes with the content and after success", () => {
    const attempt = new Attempt();
    const first = attempt.keyFor("a");
    expect(attempt.keyFor("a")).toBe(first);
    const second = attempt.keyFor("b");
    expect(second).not.toBe(first);
    attempt.accepted();
    expect(attempt.keyFor("b")).not.toBe(second);
    expect(first).toMatch(/^[\x21-\x7e]{1,255}$/);
  });
});
