import { act, renderHook } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { useSelection } from "./useSelection";

const marked = (filter: string) => {
  const hook = renderHook((now: string) => useSelection(now), { initialProps: filter });
  const ids = () => [...hook.result.current[0]];
  return { ...hook, ids, toggle: (id: string) => act(() => hook.result.current[1](id)) };
};

describe("the selection", () => {
  it("selects and deselects", () => {
    const { ids, toggle } = marked("");
    toggle("a");
    toggle("b");
    toggle("a");
    expect(ids()).toEqual(["b"]);
  });

  it("is cleared by another filter", () => {
    const { ids, toggle, rerender } = marked("status=FAILED");
    toggle("a");
    rerender("status=FAILED");
    expect(ids()).toEqual(["a"]);
    rerender("status=RUNNING");
    expect(ids()).toEqual([]);
    rerender("status=FAILED");
    expect(ids()).toEqual([]);
  });
});
