import { describe, expect, it } from "vitest";
import { sumOf } from "./ends";
import { pathOf } from "./linePath";
import { endedBetween } from "./runLinks";
import { intervalLabel, labelled, roundedUp, roundedUpDuration } from "./timeAxis";

const ended = (completed = 0, failed = 0, cancelled = 0) => ({ completed, failed, cancelled });

describe("a chart over time", () => {
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

  it.each([
    [0.0005, 0.002],
    [0.35, 0.4],
    [7, 8],
    [55, 60],
    [61, 120],
    [5_000, 7_200],
    [90_000, 172_800],
  ])("has a scale for %d s that ends at %d s", (most, top) => expect(roundedUpDuration(most)).toBe(top));

  it("adds up", () => {
    expect(sumOf([ended(3, 1), ended(2, 0, 4)])).toEqual({ completed: 5, failed: 1, cancelled: 4 });
  });

  it("labels few round times, in the local time zone", () => {
    const halfHours = Array.from({ length: 49 }, (_, number) => 1_759_968_000 + number * 1_800);
    const at = labelled(halfHours, 1_800, 9).map((number) => new Date((halfHours[number] ?? 0) * 1000));
    expect(at.length).toBeGreaterThanOrEqual(6);
    expect(at.length).toBeLessThanOrEqual(9);
    for (const time of at) expect([time.getHours() % 4, time.getMinutes()]).toEqual([0, 0]);
  });

  it("labels some of the days of a month, also where a day of UTC begins in the morning", () => {
    const days = Array.from({ length: 31 }, (_, number) => 1_759_968_000 + number * 86_400);
    expect(labelled(days, 86_400, 9)).toEqual([0, 4, 8, 12, 16, 20, 24, 28]);
    expect(labelled([1, 2, 3], 1, 5)).toEqual([0, 1, 2]);
  });

  it("names an interval of a day or more with the day of its end", () => {
    expect(intervalLabel(1_759_968_000, 86_400, "en")).toMatch(/^Oct \d+ \d\d:00 – Oct \d+ \d\d:00$/);
    expect(intervalLabel(1_759_968_000, 300, "en")).toMatch(/^Oct \d+ \d\d:00–\d\d:05$/);
  });

  it("draws lines with gaps, and values without neighbours as strokes", () => {
    expect(pathOf([1, 2, null, 1, null], 2)).toBe("M0.5 50.00L1.5 0.00M3.2 50.00H3.8");
    expect(pathOf([], 1)).toBe("");
  });

  it("links an interval to its runs", () => {
    expect(endedBetween(1_800, 3_600, "failed", { flow: "a b" })).toBe(
      "#/runs?status=FAILED&flow=a+b&updated_after=1800&updated_before=3600",
    );
  });
});
