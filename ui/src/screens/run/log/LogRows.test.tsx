import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LogRows } from "./LogRows";
import type { LogLine } from "./logLines";

const onFollow = vi.fn();
beforeEach(() => {
  Element.prototype.scrollTo ??= () => undefined;
  onFollow.mockReset();
  const lines: LogLine[] = [];
  render(<LogRows lines={lines} wrap search="" selected={null} following onFollow={onFollow} />);
  scrolled({ scrollTop: 900, scrollHeight: 1000, clientHeight: 100 });
  expect(onFollow).toHaveBeenLastCalledWith(true);
  onFollow.mockReset();
});
afterEach(cleanup);

function scrolled(box: { scrollTop: number; scrollHeight: number; clientHeight: number }) {
  const log = screen.getByRole("log");
  for (const [name, value] of Object.entries(box)) {
    Object.defineProperty(log, name, { value, configurable: true });
  }
  fireEvent.scroll(log);
}

it("follows while lines become shorter and others are added", () => {
  scrolled({ scrollTop: 700, scrollHeight: 960, clientHeight: 100 });
  scrolled({ scrollTop: 650, scrollHeight: 960, clientHeight: 140 });
  expect(onFollow).not.toHaveBeenCalled();
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
