import { describe, expect, it } from "vitest";
import type { Schemas } from "../../api/client";
import { Problem } from "../../api/problem";
import { findWarnings, type HomeData, isAllKnown, type Overview } from "./warnings";

const NOW = 1_760_000_000;

const health = (nats: boolean, index = true): Schemas["Health"] => ({
  status: "ok",
  version: "1",
  nats: { status: nats ? "connected" : "reconnecting", ready: nats, since: NOW, detail: "" },
  storage: { ready: true, cause: null, detail: "", low: [] },
  index: { ready: index, revision: 1, behind: 7, runs: 40 },
  unreadable: {},
});

const withStorage = (storage: Partial<Schemas["StorageHealth"]>): Schemas["Health"] => {
  const known = health(storage.ready ?? true);
  return { ...known, storage: { ...known.storage, ...storage } };
};

const queue = (over: Partial<Overview["queues"][number]>): Overview => {
  const own = {
    tag: "gpu",
    pending: 3,
    running: 0,
    waiting: 3,
    in_work: 0,
    oldest_pending_sec: 9,
    oldest_sec: 9,
    workers: 1,
    workers_held: 0,
    ...over,
  };
  return { queues: [own], lost_runs: [] as Overview["lost_runs"] } as Overview;
};

const worker = (id: string, state: string, wheels = "ok") =>
  ({
    worker_id: id,
    state,
    wheel_sync: { last_result: wheels, error: wheels === "error" ? "no such wheel" : null },
  }) as Schemas["WorkerView"];

const letters = (...ages: number[]) => ages.map((age) => ({ timestamp: NOW - age }) as Schemas["LetterView"]);
const wait = (inSec: number) => ({ deadline_at: NOW + inSec }) as Schemas["WaitItem"];

const homeData = (over: Partial<HomeData>): HomeData => ({
  health: health(true),
  overview: undefined,
  workers: [],
  waits: [],
  letters: [],
  moreLetters: false,
  now: NOW,
  ...over,
});

const kinds = (over: Partial<HomeData>) => findWarnings(homeData(over)).map(({ kind }) => kind);

describe("warnings", () => {
  it("are empty when all is well", () => {
    const overview = queue({});
    const workers = [worker("a", "RUNNING"), worker("b", "STOPPED_GRACEFUL", "error")];
    expect(
      findWarnings(homeData({ overview, workers, waits: [wait(7_200)], letters: letters(10, 20) })),
    ).toEqual([]);
  });

  it("report alerts that fire", () => {
    const firing = (alerts: Overview["firing_alerts"]) => ({ ...queue({}), firing_alerts: alerts });
    expect(findWarnings(homeData({ overview: firing({ total: 12, first: ["loud"] }) }))).toEqual([
      { kind: "alerts", count: 12, alerts: ["loud"] },
    ]);
    expect(kinds({ overview: firing({ total: 0, first: [] }) })).toEqual([]);
    expect(kinds({ overview: firing(null) })).toEqual([]);
  });

  it("report NATS or the index, in this order", () => {
    expect(kinds({ health: health(false, false) })).toEqual(["nats"]);
    expect(kinds({ health: health(true, false) })).toEqual(["index"]);
  });

  it("report records that cannot be read, to the operator only", () => {
    const newest = [{ kind: "run", key: "r-1", revision: 7, problem: "not JSON", found_at: NOW }] as const;
    const overview = { queues: [], unreadable: { total: 3, newest } } as unknown as Overview;
    expect(findWarnings(homeData({ overview }))).toEqual([
      { kind: "unreadable", count: 3, records: ["run r-1"] },
    ]);
    expect(kinds({ overview: { queues: [] } as unknown as Overview })).toEqual([]);
  });

  it("report that NATS cannot write, and why", () => {
    const full = withStorage({ ready: false, cause: "disk_full", detail: "its disk is full" });
    expect(findWarnings(homeData({ health: full }))).toEqual([
      { kind: "storage", cause: "disk_full", detail: "its disk is full" },
    ]);
    const unknown = withStorage({ ready: false, cause: "of a later version" });
    expect(findWarnings(homeData({ health: unknown }))).toMatchObject([{ cause: "not_stored" }]);
  });

  it("report what is almost full", () => {
    const low = [{ of: "disk", free_bytes: 5, limit_bytes: 100 }];
    expect(findWarnings(homeData({ health: withStorage({ low }) }))).toEqual([
      { kind: "space", of: "disk", free: 5, limit: 100 },
    ]);
  });

  it("report an unserved, paused or slow queue", () => {
    expect(findWarnings(homeData({ overview: queue({ workers: 0 }) }))).toEqual([
      { kind: "noWorker", tag: "gpu", waiting: 3, oldestSec: 9 },
    ]);
    expect(kinds({ overview: queue({ workers: 0, workers_held: 2 }) })).toEqual(["allHeld"]);
    expect(kinds({ overview: queue({ oldest_pending_sec: 301 }) })).toEqual(["slow"]);
    // The first job is that of a cancelled run.
    expect(kinds({ overview: queue({ oldest_sec: 900 }) })).toEqual([]);
    expect(kinds({ overview: queue({ waiting: 0, workers: 0, oldest_pending_sec: 900 }) })).toEqual([]);
  });

  it("count no jobs of cancelled runs, which stay in the queue", () => {
    expect(findWarnings(homeData({ overview: queue({ waiting: 3, pending: 1, workers: 0 }) }))).toEqual([
      { kind: "noWorker", tag: "gpu", waiting: 1, oldestSec: 9 },
    ]);
    expect(kinds({ overview: queue({ waiting: 3, pending: 0, workers: 0 }) })).toEqual([]);
  });

  it("report runs whose worker is gone, once, unless another worker is about to take them", () => {
    const lost = (seenAgo: number, over: Partial<Overview["queues"][number]>): Partial<HomeData> => ({
      overview: {
        ...queue({ waiting: 0, ...over }),
        lost_runs: [
          { worker_id: "a", tag: "gpu", runs: 2, last_seen_at: NOW - seenAgo },
          { worker_id: "b", tag: "gpu", runs: 1, last_seen_at: null },
        ].slice(0, seenAgo > 0 ? 1 : 2),
      },
      workers: [worker("a", "DISCONNECTED"), worker("c", "DISCONNECTED")],
    });
    const [first, ...rest] = findWarnings(homeData(lost(0, { workers: 0 })));
    expect(first).toEqual({ kind: "lost", tag: "gpu", runs: 3, lostBy: ["a", "b"], others: "none" });
    expect(rest).toEqual([{ kind: "disconnected", workers: ["c"] }]);
    expect(findWarnings(homeData(lost(60, { workers: 0, workers_held: 1 })))[0]).toMatchObject({
      others: "held",
    });
    expect(findWarnings(homeData(lost(301, {})))[0]).toMatchObject({ kind: "lost", others: "busy" });
    expect(kinds(lost(60, {}))).toEqual(["disconnected"]);

    const ofUnlistedQueue = (...workers: Schemas["WorkerView"][]) => {
      const { overview } = lost(301, { tag: "another" });
      return findWarnings(homeData({ overview, workers }))[0];
    };
    const serving = { ...worker("c", "IDLE"), tags: ["gpu"], paused: false, draining: false };
    expect(ofUnlistedQueue()).toMatchObject({ kind: "lost", others: "none" });
    expect(ofUnlistedQueue(serving)).toMatchObject({ others: "busy" });
    expect(ofUnlistedQueue({ ...serving, paused: true })).toMatchObject({ others: "held" });
    expect(ofUnlistedQueue({ ...serving, state: "DISCONNECTED" })).toMatchObject({ others: "none" });
    expect(ofUnlistedQueue({ ...serving, tags: ["cpu"] })).toMatchObject({ others: "none" });
  });

  it("report a wait that expires within an hour", () => {
    expect(findWarnings(homeData({ waits: [wait(60), wait(3_000), wait(4_000)] }))).toEqual([
      { kind: "expiring", count: 2, deadline: NOW + 60 },
    ]);
  });

  it("report a disconnected worker, and failed wheels", () => {
    const workers = [worker("a", "DISCONNECTED", "error"), worker("b", "IDLE", "error")];
    expect(findWarnings(homeData({ workers }))).toEqual([
      { kind: "disconnected", workers: ["a"] },
      { kind: "wheels", worker: "b", error: "no such wheel" },
    ]);
  });

  it("report an increase of dead letters", () => {
    expect(kinds({ letters: letters(1, 2, 3, 4, 5, 4_000) })).toEqual(["letters"]);
    expect(kinds({ letters: letters(1, 2, 3, 4) })).toEqual([]);
    expect(kinds({ letters: letters(1, 2, 3, 4, 5, 4_000, 4_001, 4_002, 4_003, 4_004) })).toEqual([]);
  });
});

describe("all is known", () => {
  const read = { data: [], error: null };

  it("when every read has data", () => {
    expect(isAllKnown([read, read])).toBe(true);
  });

  it("not while one is pending or failed", () => {
    expect(isAllKnown([read, { data: undefined, error: null }])).toBe(false);
    expect(isAllKnown([read, { data: [], error: new Problem("gone", "", 0, null) }])).toBe(false);
  });
});
