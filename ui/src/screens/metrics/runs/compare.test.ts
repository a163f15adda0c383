import { describe, expect, it } from "vitest";
import { changeOf, type Figures, fallOf, isOfFlows, sortedBy, speedChange, verdictOf } from "./compare";

const figures = (p50: number | null, p95: number | null = p50, completed = 1): Figures => ({
  completed,
  failed: 0,
  cancelled: 0,
  per_hour: completed,
  success_rate: 1,
  duration_ms: { p50, p95 },
  queue_ms: { p50: 1, p95: 1 },
});

describe("a period beside the one before", () => {
  it("has no change without runs in one of them", () => {
    expect(changeOf(null, 5)).toBeNull();
    expect(changeOf(5, null)).toBeNull();
    expect(changeOf(5, 0)).toBeNull();
    expect(speedChange(figures(null), figures(5))).toBeNull();
  });

  it.each([
    [0.5, "slower"],
    [-0.5, "faster"],
    [0.09, "same"],
    [-0.09, "same"],
  ])("with a change of %d is %s", (change, verdict) => expect(verdictOf(change)).toBe(verdict));

  it("is slower by its median", () => {
    expect(speedChange(figures(20, 40), figures(10, 40))).toEqual({
      verdict: "slower",
      quantile: "p50",
      current: 20,
      previous: 10,
      change: 1,
    });
  });

  it("or by its slowest runs", () => {
    expect(speedChange(figures(10, 80), figures(10, 40))).toMatchObject({
      verdict: "slower",
      quantile: "p95",
    });
    expect(speedChange(figures(10, 40), figures(10, 40))).toMatchObject({ verdict: "same", quantile: "p50" });
  });
});

describe("what is said of all runs", () => {
  const flow = (now: number, before: number | null) => ({ current: figures(now), previous: figures(before) });

  it("is what one of the flows shows", () => {
    expect(isOfFlows("faster", [flow(10, 10), flow(5, 10)])).toBe(true);
    expect(isOfFlows("faster", [flow(10, 10), flow(20, 20), flow(1, null)])).toBe(false);
    expect(isOfFlows("faster", [flow(1, null)])).toBe(true);
  });

  it("begins with a success rate that fell", () => {
    const rate = (success_rate: number | null) => ({ ...figures(1), success_rate });
    expect(fallOf(rate(0.743), rate(0.944))).toEqual({ from: 0.944, to: 0.743 });
    for (const [to, from] of [
      [0.944, 0.95],
      [1, 0.5],
      [null, 1],
      [0.5, null],
    ] as const)
      expect(fallOf(rate(to), rate(from))).toBeNull();
  });
});

describe("flows", () => {
  const row = (name: string, current: Figures, previous: Figures) => ({ name, current, previous });
  const rows = [
    row("steady", figures(10, 10, 9), figures(10)),
    row("new", figures(5), figures(null)),
    row("slowed", figures(30), figures(10)),
  ];
  const names = (order: Parameters<typeof sortedBy>[1]) => sortedBy(rows, order).map(({ name }) => name);

  it("are sorted by runs", () => expect(names("runs")).toEqual(["steady", "new", "slowed"]));
  it("by how much they slowed down", () => expect(names("change")).toEqual(["slowed", "steady", "new"]));
  it("by name", () => expect(names("name")).toEqual(["new", "slowed", "steady"]));
});
