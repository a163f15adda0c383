import { expect, it } from "vitest";
import type { Task } from "../run";
import { fanOuts } from "./fanOuts";

const task = (name: string, state: Task["state"] = "SUCCEEDED", record: Task["record"] = {}): Task => ({
  name,
  state,
  record,
});

it("groups parallel tasks of one place, and names the failed one first", () => {
  const items = Array.from({ length: 60 }, (_, at) =>
    task(`work_${at}`, at === 7 ? "FAILED" : "SUCCEEDED", { after: ["split"] }),
  );
  const found = fanOuts([task("split"), ...items, task("join", "SUCCEEDED", { after: ["work_0"] })]);
  expect(found).toEqual([
    {
      name: "work",
      count: 60,
      loop: false,
      isRetried: false,
      states: [
        ["FAILED", 1],
        ["SUCCEEDED", 59],
      ],
      first: "work_7",
    },
  ]);
});

it("counts the calls of a loop, and leaves small groups to the graph", () => {
  const found = fanOuts([task("poll", "SUCCEEDED", { calls: 12 }), task("a_1"), task("a_2")]);
  expect(found.map(({ name, count, loop }) => [name, count, loop])).toEqual([["poll", 12, true]]);
});

it("distinguishes attempts from the calls of a loop", () => {
  const call = (error?: string) => ({ started_at: 0, ended_at: 1, error });
  const retried = task("rates", "SUCCEEDED", { calls: 3, latest_calls: [call("no"), call("no"), call()] });
  const polled = task("poll", "SUCCEEDED", { calls: 2, latest_calls: [call(), call()] });
  const cut = task("many", "FAILED", { calls: 9, latest_calls: [call("no"), call("no")] });
  expect(fanOuts([retried, polled, cut]).map(({ isRetried }) => isRetried)).toEqual([true, false, false]);
});
