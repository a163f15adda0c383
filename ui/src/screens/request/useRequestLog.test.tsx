import { act, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { useRequestLog } from "./useRequestLog";

/** What the gateway sends, in the hands of the test. */
class Socket {
  static readonly opened: Socket[] = [];
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  constructor() {
    Socket.opened.push(this);
  }
  close() {}
}

const latest = () => Socket.opened.at(-1) as Socket;
const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
const send = async (...events: object[]) => {
  for (const event of events)
    latest().onmessage?.({ data: JSON.stringify({ ts: "2026-11-17T12:00:00Z", ...event }) });
  await pass(50);
};
const line = (text: string) => ({ type: "LOG", line: text });

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "requestAnimationFrame", "cancelAnimationFrame"],
  });
  vi.stubGlobal("WebSocket", Socket);
  Socket.opened.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("keeps the lines of a dropped connection until the next one has sent its first one", async () => {
  const { result } = renderHook(() => useRequestLog("one", "001", () => {}));
  const texts = () => result.current.lines.map(({ text }) => text);
  await send(line("a"), line("b"));
  expect(texts()).toEqual(["a", "b"]);
  act(() => latest().onclose?.());
  expect(result.current.isConnected).toBe(false);
  await pass(600);
  expect(Socket.opened).toHaveLength(2);
  await send({ type: "STATUS", status: "running" });
  expect(texts()).toEqual(["a", "b"]);
  await send(line("a"), line("b"), line("c"));
  expect(texts()).toEqual(["a", "b", "c"]);
  await send({ type: "DONE", status: "done" });
  expect(result.current.complete).toBe(true);
  act(() => latest().onclose?.());
  await pass(10_000);
  expect(Socket.opened).toHaveLength(2);
});
