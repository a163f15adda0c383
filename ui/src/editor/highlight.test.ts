import { describe, expect, it } from "vitest";
import { type Language, pieces, rangeOf } from "./highlight";

const kinds = (line: string, language: Language) =>
  pieces(line, language)
    .filter(({ kind, text }) => kind !== "plain" && text.trim() !== "")
    .map(({ kind, text }) => `${kind} ${text}`);

describe("pieces", () => {
  it.each<[Language, string, string[]]>([
    [
      "json",
      '{"a": "b: 1", "c": [-1.5e3, true, null]}',
      [
        "sign {",
        'key "a"',
        "sign :",
        "sign ,",
        'key "c"',
        "sign :",
        "sign [",
        "literal -1.5e3",
        "sign ,",
        "literal true",
        "sign ,",
        "literal null",
        "sign ]",
        "sign }",
      ],
    ],
    ["json", String.raw`"quoted \" : 1"`, []],
    ["yaml", "  - name: load # the first", ["sign -", "key name", "sign :", "comment # the first"]],
    ["yaml", "graph: load >> clean", ["key graph", "sign :"]],
    [
      "yaml",
      "schema: {type: boolean, min: 3}",
      [
        "key schema",
        "sign :",
        "sign {",
        "key type",
        "sign :",
        "sign ,",
        "key min",
        "sign :",
        "literal 3",
        "sign }",
      ],
    ],
    ["yaml", "url: http://host:80/#x", ["key url", "sign :", "sign :", "sign :"]],
    ["yaml", "count: 12", ["key count", "sign :", "literal 12"]],
    ["yaml", "date: 2026-11-17 is text", ["key date", "sign :"]],
  ])("%s %s", (language, line, expected) => expect(kinds(line, language)).toEqual(expected));

  it.each<[Language, string]>([
    ["yaml", "a: 'it''s' # b"],
    ["json", '{"a": [1, 2, {"b": "c'],
    ["yaml", ""],
  ])("loses nothing of %s %s", (language, line) =>
    expect(
      pieces(line, language, { from: 1, to: 4 })
        .map(({ text }) => text)
        .join(""),
    ).toBe(line),
  );

  it("marks the wrong part", () => {
    const wrong = pieces("    colour: red", "yaml", rangeOf("    colour: red", 5)).filter(
      (each) => each.isWrong,
    );
    expect(wrong).toEqual([{ text: "colour", kind: "key", isWrong: true }]);
  });
});

describe("rangeOf", () => {
  it.each([
    ["    colour: red", 5, 4, 10],
    ['{"x": 42,}', 10, 9, 10],
    ["abc", 99, 0, 3],
    ["", 1, 0, 0],
  ])("%s at column %d", (line, column, from, to) => expect(rangeOf(line, column)).toEqual({ from, to }));
});
