import { describe, expect, it } from "vitest";
import { Problem } from "../api/problem";
import { errorsByField } from "./draftForm";

const problem = (...fields: [string, string][]) =>
  new Problem(
    "Invalid request",
    "",
    422,
    "ERR-PYOCO-0001",
    fields.map(([field, message]) => ({ field, message }) as never),
  );
const NAMES = ["hook_id", "map", "header", "steps"];

describe("errors of the gateway", () => {
  it("stand at the input of their field", () => {
    const found = errorsByField(
      problem(["hook_id", "expected letters"], ["signature.header", "bad name"]),
      NAMES,
    );
    expect(found).toEqual({ wrong: { hook_id: "expected letters", header: "bad name" }, rest: null });
  });

  it("name the part of a field with several", () => {
    expect(
      errorsByField(problem(["map.issue", "no pointer"], ["steps[1].action", "empty"]), NAMES).wrong,
    ).toEqual({
      map: "issue: no pointer",
      steps: "1.action: empty",
    });
  });

  it("are shown as a whole where one has no input", () => {
    const whole = problem(["hook_id", "expected letters"], ["other", "unknown"]);
    expect(errorsByField(whole, NAMES).rest).toBe(whole);
    const bare = problem();
    expect(errorsByField(bare, NAMES)).toEqual({ wrong: {}, rest: bare });
    expect(errorsByField(null, NAMES)).toEqual({ wrong: {}, rest: null });
  });
});
