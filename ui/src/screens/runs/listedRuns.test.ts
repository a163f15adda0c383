import { describe, expect, it } from "vitest";
import { neighboursOf } from "./listedRuns";

const list = { query: "status=FAILED", ids: ["a", "b", "c"] };

describe("the neighbours of a run", () => {
  it("are those of the list", () => {
    expect(neighboursOf("b", list)).toEqual({ previous: "a", next: "c", place: 2, count: 3 });
  });
  it("end with the list", () => {
    expect(neighboursOf("a", list)?.previous).toBeNull();
    expect(neighboursOf("c", list)?.next).toBeNull();
  });
  it("do not exist for a run of another list", () => {
    expect(neighboursOf("z", list)).toBeNull();
  });
});
