import { describe, expect, it } from "vitest";
import { isolated, visible, visibleJson } from "./visible";

describe("invisible characters", () => {
  it.each([
    ["invoice\u202Egnp.exe", "invoice⟨U+202E⟩gnp.exe"],
    ["a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"],
    ["pay\u200Broll", "pay⟨U+200B⟩roll"],
    ["\u0007bell\u001B[31m", "⟨U+0007⟩bell⟨U+001B⟩[31m"],
    ["\u{E0041}", "⟨U+E0041⟩"],
    ["\uD800", "⟨U+D800⟩"],
    ["pay\u2068roll\u2069", "pay⟨U+2068⟩roll⟨U+2069⟩"],
    ["a\rb", "a⟨U+000D⟩b"],
  ])("is shown in %j", (text, shown) => expect(visible(text)).toBe(shown));

  it("other characters stay", () => {
    for (const text of [
      "日本語 と English",
      "حساب",
      "👩‍👩‍👧",
      "नमस्ते",
      "می\u200Cخواهم",
      "two\nlines\tand more",
    ])
      expect(visible(text)).toBe(text);
  });

  it("are escaped in JSON", () => {
    const json = JSON.stringify({ a: "x\u202Ey\u{E0041}", b: [1, "ok"] }, null, 2);
    expect(visibleJson(json)).toContain("x\\u202ey\\udb40\\udc41");
    expect(JSON.parse(visibleJson(json))).toEqual(JSON.parse(json));
  });
});

it("a text with another direction is isolated", () => {
  expect(isolated("حساب")).toBe("\u2068حساب\u2069");
  expect(isolated("plain")).toBe("plain");
});

it("is idempotent", () => {
  const sentence = `Cancel ${isolated("حساب\u202E")}?`;
  expect(sentence).toBe("Cancel \u2068حساب⟨U+202E⟩\u2069?");
  expect(visible(sentence)).toBe(sentence);
  expect(isolated(sentence)).toBe(sentence);
});

it("accepts CRLF", () => expect(visible("one\r\ntwo\r\n")).toBe("one\ntwo\n"));
