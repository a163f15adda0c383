import { act, renderHook } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { jsonIn } from "./inputs";
import { type Json, jsonWritten } from "./json";
import { useTyped } from "./typedText";

const field = (value: Json | undefined) =>
  renderHook((now: Json | undefined) => useTyped("json 0", now, jsonWritten, (text) => jsonIn(text).value), {
    initialProps: value,
  });

describe("typed text", () => {
  it("stays while it is invalid, also as null in a list", () => {
    const { result, rerender, unmount } = field(null);
    act(() => result.current[1]("{"));
    rerender(null);
    expect(result.current[0]).toBe("{");
    unmount();
  });

  it("is replaced by a value from outside", () => {
    const { result, rerender, unmount } = field(null);
    act(() => result.current[1]("{"));
    rerender({ a: 1 });
    expect(JSON.parse(result.current[0])).toEqual({ a: 1 });
    rerender(undefined);
    expect(result.current[0]).toBe("");
    unmount();
  });
});
