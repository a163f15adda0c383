import { describe, expect, it } from "vitest";
import { csvTable, jsonLinesTable } from "./tables";

describe("csvTable", () => {
  it("reads quotes, separators and line breaks in fields", () => {
    const { head, rows } = csvTable('name,note\r\nAda,"a, ""b""\nc"\r\n', false);
    expect([head, rows]).toEqual([["name", "note"], [["Ada", 'a, "b"\nc']]]);
  });

  it.each([
    ["a;b\n1;2", ["1", "2"]],
    ["a\tb\n1\t2", ["1", "2"]],
  ])("finds the separator of %j", (text, row) => expect(csvTable(text, false).rows).toEqual([row]));

  it("leaves out the last row of a part, which may be cut", () => {
    expect(csvTable("a\n1\n23", true)).toEqual({ head: ["a"], rows: [["1"]], isCut: true });
  });

  it("is bounded", () => {
    const { rows, isCut } = csvTable(`a\n${"1\n".repeat(1000)}`, false);
    expect([rows.length, isCut]).toEqual([200, true]);
  });
});

describe("jsonLinesTable", () => {
  it("has a column per key", () => {
    expect(jsonLinesTable('{"a": 1, "b": "x"}\n{"b": [2]}\n', false)).toEqual({
      head: ["a", "b"],
      rows: [
        ["1", "x"],
        ["", "[2]"],
      ],
      isCut: false,
    });
  });

  it("shows other values in one column, and refuses what is no JSON", () => {
    expect(jsonLinesTable("1\n2", false)?.rows).toEqual([["1"], ["2"]]);
    expect(jsonLinesTable("no json", false)).toBeNull();
  });
});
