import { act, renderHook } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { useSelection } from "./useSelection";

const marked = (filter: string) => {
  const hook = renderHook((now: string) => useSelection(now), { initialProps: filter });
  const now = () => hook.result.current;
  return { ...hook, now, ids: () => [...now().ids], toggle: (id: string) => act(() => now().toggle(id)) };
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

  it("has everything until a run is taken out, or the filter changes", () => {
    const { now, ids, toggle, rerender } = marked("flow=a");
    act(() => now().select(["a", "b"]));
    act(() => now().selectEverything());
    expect(now().everything).toBe(true);
    toggle("b");
    expect(now().everything).toBe(false);
    expect(ids()).toEqual(["a"]);
    act(() => now().selectEverything());
    rerender("flow=b");
    expect(now().everything).toBe(false);
  });
});
