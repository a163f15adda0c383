import { describe, expect, it } from "vitest";
import { changeOf, type Figures, flowSpeed, hasFallen, sortedBy, speedChange, verdictOf } from "./compare";

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

describe("all flows together", () => {
  const flow = (now: number | null, before: number | null, runs = 1) => ({
    current: figures(now, now, runs),
    previous: figures(before),
  });

  it("are as fast as before if only other flows run", () => {
    expect(flowSpeed([flow(20, 20), flow(5, null, 90)])).toBeCloseTo(0);
    expect(flowSpeed([flow(5, null)])).toBeNull();
  });

  it("are judged by their runs", () => {
    expect(flowSpeed([flow(40, 20, 3), flow(1, 2, 1)])).toBeCloseTo(Math.sqrt(2) - 1);
    expect(flowSpeed([flow(40, 20), flow(1, 2)])).toBeCloseTo(0);
  });

  it.each([
    [0.743, 0.944, true],
    [0.94, 0.944, false],
    [1, 0.5, false],
    [null, 0.5, false],
    [0.5, null, false],
  ])("with a success rate of %d after %d: it has fallen is %s", (rate, before, fallen) =>
    expect(hasFallen(rate, before)).toBe(fallen),
  );
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
