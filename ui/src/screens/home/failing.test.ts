import { describe, expect, it } from "vitest";
import { type FailingFlow, sortedFailing } from "./failing";

const flow = (flow_name: string, failed: number, completed: number): FailingFlow => ({
  flow_name,
  failed,
  completed,
  cancelled: 0,
  last_run_id: "",
  last_failed_at: 0,
  last_error: null,
  sparkline: { completed: [], failed: [], cancelled: [] },
});

describe("failing flows", () => {
  const flows = [flow("often", 10, 990), flow("always", 2, 0), flow("half", 5, 5), flow("never well", 3, 0)];
  const names = (order: "count" | "rate") => sortedFailing(flows, order).map((each) => each.flow_name);

  it("are sorted by their failures", () =>
    expect(names("count")).toEqual(["often", "half", "never well", "always"]));

  it("or by the share of runs that failed", () =>
    expect(names("rate")).toEqual(["never well", "always", "half", "often"]));
});
