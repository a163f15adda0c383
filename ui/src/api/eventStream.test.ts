import { beforeEach, describe, expect, it, vi } from "vitest";
import { apiKey } from "./apiKey";
import type { ServerEvent } from "./eventParser";
import { followEvents, type StreamState } from "./eventStream";
import * as streamSlots from "./streamSlots";

function answering(...answers: (string | Response | Error)[]) {
  const requests: Request[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    requests.push(request);
    const answer = answers.shift() ?? new Response(null, { status: 404 });
    if (answer instanceof Error) throw answer;
    return answer instanceof Response ? answer : new Response(answer);
  });
  return requests;
}

async function follow(last = "end") {
  const events: ServerEvent[] = [];
  const states: StreamState[] = [];
  await followEvents(
    "/runs/watch",
    {
      onEvent(event) {
        events.push(event);
        return event.event === last ? "end" : undefined;
      },
      onState: (state) => void states.push(state),
    },
    new AbortController().signal,
  );
  return { events, states };
}

const END = "event: end\ndata: {}\n\n";

describe("following a stream", () => {
  beforeEach(() => apiKey.set(""));

  it("resumes after the last event, after a cut and after an outage", async () => {
    const unavailable = new Response("{}", { status: 503 });
    const requests = answering("id: 4\nevent: line\ndata: 1\n\n", new TypeError("cut"), unavailable, END);
    const { events, states } = await follow();
    expect(events.map(({ event }) => event)).toEqual(["line", "end"]);
    expect(requests.map((each) => each.headers.get("Last-Event-ID"))).toEqual([null, "4", "4", "4"]);
    expect(states).toEqual([
      "connecting",
      "live",
      "reconnecting",
      "reconnecting",
      "reconnecting",
      "live",
      "ended",
    ]);
  });

  it("closes the connection of a hidden tab, and resumes after the last event", async () => {
    vi.useFakeTimers();
    const hidden = vi.spyOn(document, "hidden", "get");
    const show = (shown: boolean) => {
      hidden.mockReturnValue(!shown);
      document.dispatchEvent(new Event("visibilitychange"));
    };
    let isOpen = true;
    const open = new ReadableStream({
      start: (body) => body.enqueue(new TextEncoder().encode("id: 7\nevent: line\ndata: 1\n\n")),
      cancel() {
        isOpen = false;
      },
    });
    const requests = answering(new Response(open), END);
    try {
      const following = follow();
      await vi.advanceTimersByTimeAsync(100);
      show(false);
      await vi.advanceTimersByTimeAsync(1_500);
      expect(isOpen).toBe(false);
      await vi.advanceTimersByTimeAsync(60_000);
      expect(requests).toHaveLength(1);
      show(true);
      await following;
    } finally {
      vi.useRealTimers();
    }
    expect(requests[1]?.headers.get("Last-Event-ID")).toBe("7");
  });

  it("without a slot, reads in turns and stays live", async () => {
    vi.useFakeTimers();
    const slots = vi.spyOn(streamSlots, "withSlot").mockImplementation((_, use) => use("turn"));
    const open = new ReadableStream({
      start: (body) => body.enqueue(new TextEncoder().encode("id: 7\nevent: line\ndata: 1\n\n")),
    });
    const requests = answering(new Response(open), END);
    try {
      const following = follow();
      await vi.advanceTimersByTimeAsync(4_000);
      expect((await following).states).toEqual(["connecting", "live", "live", "ended"]);
    } finally {
      vi.useRealTimers();
    }
    expect(requests[1]?.headers.get("Last-Event-ID")).toBe("7");
    expect(slots).toHaveBeenCalledTimes(2);
  });

  it("sends the key of the tab", async () => {
    apiKey.set("secret");
    const requests = answering(END);
    await follow();
    expect(requests[0]?.headers.get("X-API-Key")).toBe("secret");
  });

  it("does not retry a permanent failure", async () => {
    answering(new Response(JSON.stringify({ title: "no", status: 403, detail: "" }), { status: 403 }));
    expect((await follow()).states).toEqual(["connecting", "failed"]);
  });
});
