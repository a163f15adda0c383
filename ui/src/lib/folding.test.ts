import { describe, expect, it } from "vitest";
import { folded } from "./folding";

describe("folded", () => {
  it.each([
    ["ΟΔΟΣΑ", "οδοσ"],
    ["οδός", "ΟΔΌΣ"],
    ["STRASSE", "straße"],
    ["cafe\u0301", "CAFÉ"],
    ["ＥＴＬ", "etl"],
    ["ｶﾞｿﾘﾝ", "ガソリン"],
  ])("finds %s by %s", (written, asked) => {
    expect(folded(written)).toContain(folded(asked));
  });
});
