import { renderHook } from "@testing-library/react";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { distance, MOVED_PX, useDrag } from "./useDrag";

const at = (x: number, y = 0) => ({ x, y });

function dragged({ dragsAfterPinch = true } = {}) {
  const element = document.createElement("div");
  element.setPointerCapture = vi.fn();
  const box = { current: element };
  const [onDrag, onPinch] = [vi.fn(), vi.fn()];
  const isDrag = (from: { x: number; y: number }, to: { x: number; y: number }) =>
    distance(from, to) >= MOVED_PX;
  const { result, unmount } = renderHook(() => useDrag(box, { isDrag, onDrag, onPinch, dragsAfterPinch }));
  const point = (type: string, pointerId: number, x: number, button = 0) => {
    const event = new MouseEvent(`pointer${type}`, { clientX: x, clientY: 0, button });
    element.dispatchEvent(Object.assign(event, { pointerId }));
  };
  return { element, onDrag, onPinch, hasMoved: () => result.current.current, point, unmount };
}

describe("a drag", () => {
  let box: ReturnType<typeof dragged>;
  beforeEach(() => {
    box = dragged();
  });

  it("begins after a few pixels, and then loses none of them", () => {
    box.point("down", 1, 10);
    box.point("move", 1, 12);
    expect(box.onDrag).not.toHaveBeenCalled();
    expect(box.hasMoved()).toBe(false);
    box.point("move", 1, 15);
    box.point("move", 1, 16);
    expect(box.onDrag.mock.calls).toEqual([
      [at(10), at(15)],
      [at(15), at(16)],
    ]);
    expect(box.element.setPointerCapture).toHaveBeenCalledExactlyOnceWith(1);
    expect(box.hasMoved()).toBe(true);
  });

  it.each(["up", "cancel", "leave"])("ends with pointer%s", (end) => {
    box.point("down", 1, 10);
    box.point(end, 1, 10);
    box.point("move", 1, 90);
    expect(box.onDrag).not.toHaveBeenCalled();
  });

  it("needs the main button", () => {
    box.point("down", 1, 10, 2);
    box.point("move", 1, 90, 2);
    expect(box.onDrag).not.toHaveBeenCalled();
  });

  it("is forgotten when the next pointer is pressed", () => {
    box.point("down", 1, 10);
    box.point("move", 1, 90);
    box.point("up", 1, 90);
    expect(box.hasMoved()).toBe(true);
    box.point("down", 2, 10);
    expect(box.hasMoved()).toBe(false);
  });

  it("ends when the element is removed", () => {
    box.unmount();
    box.point("down", 1, 10);
    box.point("move", 1, 90);
    expect(box.onDrag).not.toHaveBeenCalled();
  });
});

describe("a pinch", () => {
  const pinched = (dragsAfterPinch: boolean) => {
    const box = dragged({ dragsAfterPinch });
    box.point("down", 1, 10);
    box.point("down", 2, 50);
    box.point("move", 2, 51);
    expect(box.onPinch.mock.calls).toEqual([[at(50), at(51), at(10)]]);
    expect(box.hasMoved()).toBe(true);
    box.point("up", 2, 51);
    box.point("move", 1, 20);
    return box;
  };

  it("goes on as a drag of the last pointer", () => {
    expect(pinched(true).onDrag.mock.calls).toEqual([[at(10), at(20)]]);
  });

  it("ends with its first pointer where no drag follows; the next one begins where the other is", () => {
    const box = pinched(false);
    expect(box.onDrag).not.toHaveBeenCalled();
    box.point("down", 3, 60);
    box.point("move", 3, 70);
    expect(box.onPinch).toHaveBeenLastCalledWith(at(60), at(70), at(20));
    box.point("up", 3, 70);
    box.point("up", 1, 20);
    box.point("down", 4, 0);
    box.point("move", 4, 9);
    expect(box.onDrag.mock.calls).toEqual([[at(0), at(9)]]);
  });
});
