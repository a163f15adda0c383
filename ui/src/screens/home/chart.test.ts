import { describe, expect, it } from "vitest";
import { type Interval, intervalHref, labelled, roundedUp, sumOf } from "./chart";

const interval = (at: number, completed = 0, failed = 0, cancelled = 0): Interval => ({
  at,
  completed,
  failed,
  cancelled,
});

describe("the chart of ended runs", () => {
  it.each([
    [0, 2],
    [2, 2],
    [3, 4],
    [7, 8],
    [10, 10],
    [13, 14],
    [41, 50],
    [100, 100],
    [130, 140],
    [1_001, 1_200],
  ])("has a scale for %d that ends at %d", (most, top) => expect(roundedUp(most)).toBe(top));

  it("adds up", () => {
    expect(sumOf([interval(0, 3, 1), interval(60, 2, 0, 4)])).toEqual({
      completed: 5,
      failed: 1,
      cancelled: 4,
    });
  });

  it("labels few round times, in the local time zone", () => {
    const halfHours = Array.from({ length: 49 }, (_, number) => interval(1_759_968_000 + number * 1_800));
    const at = labelled(halfHours, 1_800, 9).map((number) => new Date((halfHours[number]?.at ?? 0) * 1000));
    expect(at.length).toBeGreaterThanOrEqual(6);
    expect(at.length).toBeLessThanOrEqual(9);
    for (const time of at) expect([time.getHours() % 4, time.getMinutes()]).toEqual([0, 0]);
  });

  it("links a bar to its runs", () => {
    expect(intervalHref(interval(1_800), 1_800, "failed")).toBe(
      "#/runs?status=FAILED&updated_after=1800&updated_before=3600",
    );
  });
});
