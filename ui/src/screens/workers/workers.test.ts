import { describe, expect, it } from "vitest";
import { historyOf, shownWorkers, summaryOf, unnamedRuns, type Worker, type WorkerEvent } from "./workers";

type Fields = Omit<Partial<Worker>, "history"> & { history?: WorkerEvent[] };
const worker = (worker_id: string, fields: Fields = {}): Worker =>
  ({
    worker_id,
    state: "IDLE",
    hidden: false,
    tags: ["default"],
    version: "1.0.0",
    slots: 2,
    slots_busy: 0,
    current_run_ids: [],
    flows: [],
    host: null,
    history: [],
    ...fields,
  }) as unknown as Worker;

const WORKERS = [
  worker("gpu-1", { state: "RUNNING", tags: ["gpu"], slots: 4, slots_busy: 3, current_run_ids: ["a"] }),
  worker("cpu-1"),
  worker("lost", { state: "DISCONNECTED", slots_busy: 2 }),
  worker("done", { state: "STOPPED_GRACEFUL" }),
  worker("shy", { hidden: true }),
];
const NOTHING = { text: "", stopped: false, hidden: false };
const names = (wish: Partial<typeof NOTHING>) =>
  shownWorkers(WORKERS, { ...NOTHING, ...wish }).map((each) => each.worker_id);

describe("the list of workers", () => {
  it("hides stopped and hidden workers, never disconnected ones", () =>
    expect(names({})).toEqual(["gpu-1", "cpu-1", "lost"]));
  it("shows them on demand", () => {
    expect(names({ stopped: true })).toContain("done");
    expect(names({ hidden: true })).toContain("shy");
  });
  it("is searched by host and flow", () => {
    const host = { name: "rack-7", system: "Linux", python: "3.12", cpus: 2, memory_bytes: null };
    const found = (text: string) =>
      shownWorkers([worker("a", { host }), worker("b", { flows: ["etl"] })], { ...NOTHING, text });
    expect(found("rack").map((each) => each.worker_id)).toEqual(["a"]);
    expect(found("ETL").map((each) => each.worker_id)).toEqual(["b"]);
  });
  it("is searched by name and tag", () => {
    expect(names({ text: " GPU" })).toEqual(["gpu-1"]);
    expect(names({ text: "default" })).toEqual(["cpu-1", "lost"]);
  });
});

it("counts the slots of online workers", () =>
  expect(summaryOf(WORKERS)).toEqual({ online: 3, slots: 8, busy: 3, stopped: 1, hidden: 1 }));

describe("the history of a worker", () => {
  const started = { at: 10, kind: "started" } as const;
  it("begins with the newest event", () => {
    const paused = { at: 20, kind: "paused", by: "ada" } as const;
    expect(historyOf(worker("a", { history: [started, paused] }))).toEqual([paused, started]);
  });
  it("ends with the last heartbeat of a worker that died", () => {
    const lost = worker("a", { state: "DISCONNECTED", last_seen_at: 30, history: [started] });
    expect(historyOf(lost)[0]).toEqual({ at: 30, kind: "disconnected" });
  });
});

it("counts runs of other tenants", () => {
  expect(unnamedRuns(worker("a", { slots_busy: 3, current_run_ids: ["x"] }))).toBe(2);
  // A record may be read between two of its changes.
  expect(unnamedRuns(worker("a", { slots_busy: 0, current_run_ids: ["x"] }))).toBe(0);
});
