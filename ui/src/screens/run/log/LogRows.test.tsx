import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LogRows } from "./LogRows";
import type { LogLine } from "./logLines";

const onFollow = vi.fn();
/** Calls what the observers of sizes would be told by a browser. */
let resized: () => void;
beforeEach(() => {
  vi.stubGlobal(
    "ResizeObserver",
    class {
      constructor(told: () => void) {
        resized = told;
      }
      observe() {}
      unobserve() {}
      disconnect() {
        resized = () => undefined;
      }
    },
  );
  Element.prototype.scrollTo ??= () => undefined;
  onFollow.mockReset();
  const lines: LogLine[] = [];
  render(<LogRows lines={lines} wrap search="" selected={null} following onFollow={onFollow} />);
  scrolled({ scrollTop: 900, scrollHeight: 1000, clientHeight: 100 });
  expect(onFollow).toHaveBeenLastCalledWith(true);
  onFollow.mockReset();
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function scrolled(box: { scrollTop: number; scrollHeight: number; clientHeight: number }) {
  const log = screen.getByRole("log");
  for (const [name, value] of Object.entries(box)) {
    Object.defineProperty(log, name, { value, configurable: true, writable: true });
  }
  fireEvent.scroll(log);
}

it("stays at its end when the box gets another height", () => {
  const log = screen.getByRole("log");
  let top = 880;
  Object.defineProperty(log, "scrollTop", {
    get: () => top,
    set: (value: number) => {
      top = value;
    },
    configurable: true,
  });
  resized();
  expect(top).toBe(1000);
});

it("follows while lines become shorter and others are added", () => {
  scrolled({ scrollTop: 700, scrollHeight: 960, clientHeight: 100 });
  scrolled({ scrollTop: 650, scrollHeight: 960, clientHeight: 140 });
  expect(onFollow).not.toHaveBeenCalled();
  expect(screen.getByRole("log").scrollTop).toBe(960);
});

it("stops when the user scrolls up, also while lines are added", () => {
  fireEvent.wheel(screen.getByRole("log"), { deltaY: -100 });
  scrolled({ scrollTop: 850, scrollHeight: 1040, clientHeight: 100 });
  expect(onFollow).toHaveBeenLastCalledWith(false);
});

it("stops when the browser's search scrolls up", () => {
  scrolled({ scrollTop: 300, scrollHeight: 1000, clientHeight: 100 });
  expect(onFollow).toHaveBeenLastCalledWith(false);
});
