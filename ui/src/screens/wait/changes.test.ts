import { describe, expect, it } from "vitest";
import { changesOf, linesOf } from "./changes";

describe("the changes of a proposal", () => {
  it("are listed by path", () => {
    const before = { amount: 1250, account: "4930", lines: [{ text: "a" }, { text: "b" }], gone: null };
    const after = { amount: 1000, account: "4930", lines: [{ text: "a" }, { text: "c" }, 3], fresh: [] };
    expect(changesOf(before, after)).toEqual([
      { path: ["amount"], before: 1250, after: 1000 },
      { path: ["lines", 1, "text"], before: "b", after: "c" },
      { path: ["lines", 2], after: 3 },
      { path: ["gone"], before: null },
      { path: ["fresh"], after: [] },
    ]);
  });

  it("are empty for an equal value, and whole for another type", () => {
    expect(changesOf({ a: 1, b: [2] }, { b: [2], a: 1 })).toEqual([]);
    expect(changesOf([1], { 0: 1 })).toEqual([{ path: [], before: [1], after: { 0: 1 } }]);
    expect(changesOf(null, false)).toEqual([{ path: [], before: null, after: false }]);
  });
});

describe("a long text", () => {
  it("is compared by lines", () => {
    const lines = linesOf("Dear Ada,\nwe pay.\nBye", "Dear Ada,\nwe do not pay.\nSorry.\nBye");
    expect(lines.map(({ kind, text }) => `${kind} ${text}`)).toEqual([
      "same Dear Ada,",
      "removed we pay.",
      "added we do not pay.",
      "added Sorry.",
      "same Bye",
    ]);
  });
});
