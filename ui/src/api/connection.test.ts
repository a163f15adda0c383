import { act, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { recordResponse, useConnection } from "./connection";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const pass = (seconds: number) => act(() => vi.advanceTimersByTime(seconds * 1000));

it("a gateway that is silent for two heartbeats does not respond", () => {
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
