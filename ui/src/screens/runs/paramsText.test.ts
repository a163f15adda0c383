import { describe, expect, it } from "vitest";
import { paramsText, wholeParams } from "./paramsText";

describe("params in a list", () => {
  it("are pairs in one line", () => {
    expect(paramsText('{"day":"2026-11-17","rows":[1,2],"dry":false,"note":null}')).toBe(
      "day=2026-11-17  rows=[1,2]  dry=false  note=null",
    );
  });

  it("keep long integers", () => {
    expect(paramsText('{"id":12345678901234567890}')).toBe("id=12345678901234567890");
  });

  it("are shown as they are if they were cut", () => {
    expect(paramsText('{"rows":[{"id":1},{"i')).toBe('"rows":[{"id":1},{"i');
    expect(wholeParams('{"rows":[{"id":1},{"i')).toBeNull();
  });

  it("are whole with a line for each value", () => {
    expect(wholeParams('{"a":1,"b":"x"}')).toBe('{\n  "a": 1,\n  "b": "x"\n}');
  });
});
