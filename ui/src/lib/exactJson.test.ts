import { describe, expect, it } from "vitest";
import { ExactNumber, formattedJson, jsonText, parseJson } from "./exactJson";

const LONG = "12345678901234567890";

describe("a whole number beyond 2^53", () => {
  it("is parsed and written exactly", () => {
    const text = `{"a":[${LONG},-${LONG}],"b":{"c":9007199254740991,"d":0.30000000000000004,"e":1e20}}`;
    const value = parseJson(text) as { a: unknown[]; b: unknown };
    expect(value.a).toEqual([new ExactNumber(LONG), new ExactNumber(`-${LONG}`)]);
    expect(value.b).toEqual({ c: Number.MAX_SAFE_INTEGER, d: 0.30000000000000004, e: 1e20 });
    expect(jsonText(value)).toBe(text.replace("1e20", "100000000000000000000"));
    expect(String(value.a[0])).toBe(LONG);
  });

  it.each([`"${LONG}"`, `"say \\"${LONG}\\""`, `{"${LONG}":1}`])("is a text in %s", (text) =>
    expect(parseJson(text)).toEqual(JSON.parse(text)),
  );

  it("does not make invalid JSON valid", () => {
    for (const text of [`{${LONG}}`, `[${LONG}`, `{${LONG}: 1}`, `0${LONG}`])
      expect(() => parseJson(text)).toThrow(SyntaxError);
  });
});

describe("formatting", () => {
  it("changes no value", () => {
    const text = `{"id":${LONG} ,"x":1.0,"s":"a, {b}: [c]","l":[ ],"o":{"p":[1e5,null]}}`;
    expect(formattedJson(text).split("\n")).toEqual([
      "{",
      `  "id": ${LONG},`,
      '  "x": 1.0,',
      '  "s": "a, {b}: [c]",',
      '  "l": [],',
      '  "o": {',
      '    "p": [',
      "      1e5,",
      "      null",
      "    ]",
      "  }",
      "}",
    ]);
  });
});
