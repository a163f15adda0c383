import { describe, expect, it } from "vitest";
import { byFlow, isTouched, touchedBy } from "./touched";

describe("touchedBy", () => {
  const statuses = (filter: string | null) =>
    filter && new URLSearchParams(filter).getAll("status").join(" ");

  it("leaves out what cannot be cancelled or rerun", () => {
    expect(statuses(touchedBy("cancel", "flow=a"))).toBe("SCHEDULED PENDING RUNNING WAITING_HUMAN WAITING");
    expect(statuses(touchedBy("rerun", "flow=a"))).toBe("COMPLETED FAILED CANCELLED");
    expect(new URLSearchParams(touchedBy("cancel", "flow=a&q=b") ?? "").get("q")).toBe("b");
  });

  it("keeps to the chosen statuses", () => {
    expect(statuses(touchedBy("cancel", "status=PENDING&status=FAILED"))).toBe("PENDING");
    // Never a filter without a status, which would match all.
    expect(touchedBy("cancel", "status=FAILED&status=CANCELLING")).toBeNull();
  });
});

it("a run that is being cancelled is not cancelled again", () => {
  expect(isTouched("cancel", "CANCELLING")).toBe(false);
  expect(isTouched("rerun", "CANCELLING")).toBe(false);
});

it("flows are counted, most first", () => {
  const runs = ["b", "a", "b", "c"].map((flow_name) => ({ flow_name }));
  expect(byFlow(runs)).toEqual([
    ["b", 2],
    ["a", 1],
    ["c", 1],
  ]);
});
