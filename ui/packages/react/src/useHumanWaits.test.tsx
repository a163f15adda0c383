import { act, renderHook, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { HumanWaitError, useHumanWaits } from "./index.js";
import { aWait, eventStream, json } from "./testing.js";

type Answering = (request: Request) => Response | Promise<Response>;

/** The hook with a fake gateway; `asked` has the requests. */
function atGateway(answer: Answering) {
  const asked: Request[] = [];
  const fetch = async (request: Request) => {
    asked.push(request);
    return answer(request);
  };
  const { result } = renderHook(() => useHumanWaits({ api: "http://gateway/", fetch, pollMs: 20 }));
  return { result, asked };
}

const shown = (result: { current: ReturnType<typeof useHumanWaits> }) =>
  result.current.runs.map(({ id }) => id);
const isWatch = ({ url }: Request) => url.endsWith("/waits/watch");
const receipt = { success: true, run_id: "r1", wait_id: "r1.a", repeated: false };

describe("useHumanWaits", () => {
  it("follows the stream, and resumes after the last event", async () => {
    const streams = [eventStream(), eventStream()];
    let next = 0;
    const { result, asked } = atGateway(() => (streams[next++] ?? eventStream()).answer);
    streams[0]?.tell("open", { waits: [aWait("r1.a")] });
    await waitFor(() => expect(shown(result)).toEqual(["r1"]));
    expect(result.current.state).toBe("live");
    streams[0]?.end();
    await waitFor(() => expect(asked).toHaveLength(2));
    expect(asked[1]?.headers.get("Last-Event-ID")).toBe("e-1");
    streams[1]?.tell("opened", { wait: aWait("r2.a") });
    streams[1]?.tell("closed", { wait: aWait("r1.a", { state: "answered" }) });
    await waitFor(() => expect(shown(result)).toEqual(["r2"]));
  });

  it("polls the list if no stream gets through", async () => {
    let waits = [aWait("r1.a")];
    const { result } = atGateway((request) =>
      isWatch(request) ? json({}, 404) : json({ items: waits, next_cursor: null }),
    );
    await waitFor(() => expect(shown(result)).toEqual(["r1"]));
    expect(result.current.state).toBe("polling");
    waits = [aWait("r2.a")];
    await waitFor(() => expect(shown(result)).toEqual(["r2"]));
  });

  it("reports a refusal, and retries only on reload", async () => {
    let allowed = false;
    const { result, asked } = atGateway((request) => {
      if (!allowed) return json({ title: "No key", err_id: "ERR-PYOCO-0014" }, 401);
      return isWatch(request) ? json({}, 404) : json({ items: [aWait("r1.a")], next_cursor: null });
    });
    await waitFor(() => expect(result.current.state).toBe("refused"));
    expect(asked).toHaveLength(2);
    expect(result.current.problem).toMatchObject({ message: "No key", status: 401 });
    allowed = true;
    await act(() => result.current.reload());
    expect(shown(result)).toEqual(["r1"]);
  });

  it("sends a double click once, and retries a lost answer with the same id", async () => {
    const bodies: Record<string, unknown>[] = [];
    const stream = eventStream();
    let lost = true;
    const { result } = atGateway(async (request) => {
      if (isWatch(request)) return stream.answer;
      expect(request.url).toBe("http://gateway/waits/r1.a/respond");
      bodies.push(await request.json());
      if (lost) throw new TypeError("no network");
      return json(receipt);
    });
    stream.tell("open", { waits: [aWait("r1.a")] });
    await waitFor(() => expect(shown(result)).toEqual(["r1"]));
    await expect(act(() => result.current.respond("r1", { ok: true }))).rejects.toThrow("no network");
    expect(shown(result)).toEqual(["r1"]);
    lost = false;
    await act(() =>
      Promise.all([result.current.respond("r1", { ok: true }), result.current.respond("r1", { ok: true })]),
    );
    expect(bodies).toHaveLength(2);
    expect(bodies[0]).toEqual({
      payload: { ok: true },
      decision_id: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
    expect(bodies[1]).toEqual(bodies[0]);
    expect(shown(result)).toEqual([]);
  });

  it("reports the error of the gateway, and keeps the question", async () => {
    const stream = eventStream();
    const refusal = { error: "already_decided", message: "it was answered by ada", title: "Too late" };
    const { result } = atGateway((request) => (isWatch(request) ? stream.answer : json(refusal, 409)));
    stream.tell("open", { waits: [aWait("r1.a"), aWait("r1.b"), aWait("r2.a")] });
    await waitFor(() => expect(shown(result)).toEqual(["r1", "r2"]));
    const problem = await result.current.respond("r2.a", 1).catch((error: unknown) => error);
    expect(problem).toBeInstanceOf(HumanWaitError);
    expect(problem).toMatchObject({
      status: 409,
      error: "already_decided",
      message: "it was answered by ada",
    });
    await expect(result.current.respond("r1", 1)).rejects.toMatchObject({ error: "ambiguous_wait" });
    expect(shown(result)).toEqual(["r1", "r2"]);
  });

  it("sends an answer for an unknown run to the gateway", async () => {
    const stream = eventStream();
    const { result, asked } = atGateway((request) =>
      isWatch(request) ? stream.answer : json({ runId: "r9", success: true }),
    );
    await result.current.respond("r9", { decision: "approved" });
    expect(asked.at(-1)?.url).toBe("http://gateway/resume");
    expect(await asked.at(-1)?.json()).toMatchObject({ runId: "r9", payload: { decision: "approved" } });
  });
});
