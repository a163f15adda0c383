import { describe, expect, it } from "vitest";
import { bodyFor } from "./answering.js";
import { eventIn } from "./following.js";
import { openWaits, runsOf, withEvents, without } from "./openWaits.js";
import { aWait } from "./testing.js";

const ids = (waits: ReturnType<typeof openWaits>) => [...waits.keys()];

describe("open waits", () => {
  const first = aWait("r1.a", { deadline_at: 200 });
  const second = aWait("r2.b", { deadline_at: 100 });

  it("are replaced, added and removed by events", () => {
    let open = withEvents(openWaits([]), [{ event: "open", data: { waits: [first] } }]);
    open = withEvents(open, [{ event: "opened", data: { wait: second } }]);
    expect(ids(open)).toEqual(["r1.a", "r2.b"]);
    open = withEvents(open, [{ event: "closed", data: { wait: { ...first, state: "answered" } } }]);
    expect(ids(open)).toEqual(["r2.b"]);
    expect(withEvents(open, [{ event: "heartbeat", data: { ts: 1 } }])).toBe(open);
    expect(without(open, "r1.a")).toBe(open);
    expect(ids(withEvents(open, [{ event: "open", data: { waits: [] } }]))).toEqual([]);
  });

  it("are grouped by run, the next deadline first", () => {
    const third = aWait("r1.c", { deadline_at: 50, message: "soonest" });
    const runs = runsOf(openWaits([first, second, third]));
    expect(runs.map(({ id }) => id)).toEqual(["r1", "r2"]);
    expect(runs[0]).toMatchObject({ wait_message: "soonest", wait_deadline_at: 50 });
    expect(runs[0]).toMatchObject({ id: "r1", run_id: "r1", status: "waiting_human" });
    expect(runs[0]?.waits.map(({ wait_id }) => wait_id)).toEqual(["r1.c", "r1.a"]);
  });
});

describe("an event", () => {
  it("is parsed from its lines", () =>
    expect(eventIn('id: 1a-2\r\nevent: opened\r\ndata: {"a":\r\ndata: 1}')).toEqual({
      event: "opened",
      id: "1a-2",
      data: { a: 1 },
    }));
  it("is not a comment", () => expect(eventIn(": still here")).toBeNull());
});

describe("an answer", () => {
  it("is the payload", () => expect(bodyFor(aWait("r.a"), false)).toEqual({ payload: false }));

  it("to a proposal has the digest of the one shown", () => {
    const wait = aWait("r.a", { proposal_digest: "d1" });
    expect(bodyFor(wait, { decision: "approved" })).toEqual({ decision: "approved", digest: "d1" });
    expect(bodyFor(wait, { decision: "edited", value: null, digest: "d0" })).toEqual({
      decision: "edited",
      payload: null,
      digest: "d0",
    });
    expect(bodyFor(wait, { decision: "rejected", note: "no" })).toEqual({
      decision: "rejected",
      digest: "d1",
      note: "no",
    });
  });
});
