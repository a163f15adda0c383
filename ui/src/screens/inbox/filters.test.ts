import { describe, expect, it } from "vitest";
import { aWait } from "../../../packages/react/src/testing";
import { choices, isFiltered, matching } from "./filters";

const WAITS = [
  aWait("r1.a", { message: "Pay the invoice?", assignees: ["ada"], deadline_at: 1_000 }),
  aWait("r2.a", { message: "Publish the draft?", flow_name: "news", deadline_at: 50_000 }),
  aWait("r3.a", { message: "Delete it?", flow_name: "news", task: "prune", deadline_at: 500_000 }),
];

const found = (address: string) =>
  matching(WAITS, new URLSearchParams(address), 0).map(({ run_id }) => run_id);

describe("the URL filters the questions", () => {
  it.each([
    ["", ["r1", "r2", "r3"]],
    ["q=PAY+ada", ["r1"]],
    ["q=prune", ["r3"]],
    ["q=r2", ["r2"]],
    ["flow=news&due=24h", ["r2"]],
    ["due=1h", ["r1"]],
    ["due=never", ["r1", "r2", "r3"]],
    ["assignee=ada", ["r1"]],
    ["assignee=bob", []],
  ])("%s", (address, runs) => expect(found(address)).toEqual(runs));

  it("reports hidden questions", () => {
    expect(isFiltered(new URLSearchParams("wait=r1.a"))).toBe(false);
    expect(isFiltered(new URLSearchParams("flow=news"))).toBe(true);
  });

  it("offers the selected value, even without a match", () =>
    expect(choices(["b", "a", "b"], "c")).toEqual(["a", "b", "c"]));
});
