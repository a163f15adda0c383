import { act, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

beforeEach(() => {
  vi.useFakeTimers();
  // A clock of its own: the one that all screens share may tick already, by real time.
  vi.resetModules();
});
afterEach(() => {
  vi.useRealTimers();
});

const pass = (seconds: number) => act(() => vi.advanceTimersByTime(seconds * 1000));

it("a gateway that is silent for two heartbeats does not respond", async () => {
  const { recordResponse, useConnection } = await import("./connection");
  const { result } = renderHook(useConnection);
  act(recordResponse);
  const since = Date.now() / 1000;
  pass(9);
  expect(result.current.lostAt).toBeNull();
  pass(3);
  expect(result.current.lostAt).toBe(since);
  act(recordResponse);
  pass(1);
  expect(result.current.lostAt).toBeNull();
});
