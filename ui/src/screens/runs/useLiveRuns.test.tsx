import { act, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MAX_PENDING, type Run } from "./runList";
import { useLiveRuns } from "./useLiveRuns";

const NEWEST_FIRST = { sort: "updated_at", ascending: false } as const;
const run = (run_id: string, updated_at = 1) => ({ run_id, updated_at }) as Run;
const pass = (milliseconds: number) => act(() => vi.advanceTimersByTimeAsync(milliseconds));

/** Empty lists, each with a stream. */
function gateway() {
  const streams = new Map<string | null, ReadableStreamDefaultController<Uint8Array>>();
  const read: (string | null)[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const { pathname, searchParams } = new URL(request.url);
    const flow = searchParams.get("flow");
    if (pathname === "/runs/watch")
      return new Response(new ReadableStream({ start: (body) => void streams.set(flow, body) }));
    read.push(flow);
    return Response.json({ items: [], next_cursor: null }, { headers: { "X-Pyoco-Revision": "b-1" } });
  });
  const tell = (flow: string, ...events: { id: string; event: string; data: unknown }[]) => {
    const text = events.map(
      ({ id, event, data }) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`,
    );
    streams.get(flow)?.enqueue(new TextEncoder().encode(text.join("")));
  };
  return { read, tell };
}

const snapshot = (id: string, of: Run) => ({ id, event: "snapshot", data: { snapshot: of } });

describe("a live list", () => {
  const onChanged = vi.fn();
  const shown = () =>
    renderHook(
      ({ filter, frozen }: { filter: string; frozen: boolean }) =>
        useLiveRuns({ filter, ordering: NEWEST_FIRST, frozen, restored: undefined, onChanged }),
      { initialProps: { filter: "flow=a", frozen: false } },
    );
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onChanged.mockClear();
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("ignores changes of the previous filter", async () => {
    const { tell } = gateway();
    const { result, rerender, unmount } = shown();
    await pass(10);
    tell("a", snapshot("b-2", run("old")));
    await pass(10);
    rerender({ filter: "flow=b", frozen: false });
    await pass(10);
    expect(result.current.settled).toBe(true);
    await pass(200);
    expect(result.current.list.order).toEqual([]);
    tell("b", snapshot("b-3", run("new")));
    await pass(200);
    expect(result.current.list.order).toEqual(["new"]);
    unmount();
  });

  it("advances its position without a change", async () => {
    const { tell } = gateway();
    const { result, unmount } = shown();
    await pass(10);
    expect(result.current.list.position).toBe("b-1");
    tell("a", { id: "b-9", event: "heartbeat", data: { ts: 1 } });
    await pass(200);
    expect(result.current.list.position).toBe("b-9");
    expect(onChanged).not.toHaveBeenCalled();
    unmount();
  });

  it("is loaded again at the top after an overflow", async () => {
    const { read, tell } = gateway();
    const { result, rerender, unmount } = shown();
    await pass(10);
    rerender({ filter: "flow=a", frozen: true });
    const many = [...Array(MAX_PENDING + 1).keys()];
    tell("a", ...many.map((at) => snapshot(`b-${at + 2}`, run(`r${at}`, at))));
    await pass(200);
    expect(result.current.list.overflowed).toBe(true);
    expect(read).toEqual(["a"]);
    rerender({ filter: "flow=a", frozen: false });
    await pass(200);
    expect(read).toEqual(["a", "a"]);
    expect(result.current.list.overflowed).toBe(false);
    unmount();
  });
});
