import { describe, expect, it } from "vitest";
import { looseText, looseValue, pairText, parsePairs } from "./pairLines";

describe("pairs", () => {
  it("are one per line", () => {
    expect(parsePairs("issue = /issue/number\n\n url=/a=b \n")).toEqual({
      pairs: { issue: "/issue/number", url: "/a=b" },
    });
    expect(parsePairs("")).toEqual({ pairs: {} });
    expect(parsePairs("body =")).toEqual({ pairs: { body: "" } });
  });

  it("name the line that is wrong", () => {
    expect(parsePairs("a = b\n /issue/number")).toEqual({ wrong: "/issue/number" });
    expect(parsePairs("= /a")).toEqual({ wrong: "= /a" });
  });

  it("are written as they are read", () => {
    const text = "issue = /issue/number\nall = ";
    const parsed = parsePairs(text);
    expect("pairs" in parsed && pairText(parsed.pairs)).toBe(text);
  });
});

describe("loose values", () => {
  it("are JSON, or text", () => {
    expect(["true", "3", '"3"', "null", "opened", "{"].map(looseValue)).toEqual([
      true,
      3,
      "3",
      null,
      "opened",
      "{",
    ]);
  });

  it("keep their type when they are shown", () => {
    for (const value of [true, 3, "3", "opened", "", null, { a: [1] }, '"quoted"'])
      expect(looseValue(looseText(value))).toEqual(value);
  });
});
