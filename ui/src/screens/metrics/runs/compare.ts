/** How figures of a period differ from those of the period before. */
import type { Schemas } from "../../../api/client";

export type Statistics = Schemas["Statistics"];
export type Figures = Schemas["RunFigures"];
export type Period = Statistics["period"];
export const PERIODS: readonly Period[] = ["1h", "24h", "7d", "30d"];

/** A quantile is within 4.5 % of the exact one: two that differ by less than this may be equal. */
const NOISE = 0.1;
const LEAST_FALL = 0.01;

/** The relative change, 0.5 for half more; null without both values. */
export const changeOf = (current: number | null, previous: number | null): number | null =>
  current === null || previous === null || previous === 0 ? null : current / previous - 1;

export type Verdict = "slower" | "faster" | "same";

export const verdictOf = (change: number): Verdict =>
  Math.abs(change) < NOISE ? "same" : change > 0 ? "slower" : "faster";

export interface SpeedChange {
  verdict: Verdict;
  /** Which quantile shows it. */
  quantile: "p50" | "p95";
  current: number;
  previous: number;
  change: number;
}

/** Whether runs take longer than before: by the median, or by the slowest runs if the median is the same. */
export function speedChange(current: Figures, previous: Figures): SpeedChange | null {
  const found = (["p50", "p95"] as const).flatMap((quantile): SpeedChange[] => {
    const [now, before] = [current.duration_ms[quantile], previous.duration_ms[quantile]];
    const change = changeOf(now, before);
    if (change === null || now === null || before === null) return [];
    return [{ verdict: verdictOf(change), quantile, current: now, previous: before, change }];
  });
  return found.find(({ verdict }) => verdict !== "same") ?? found[0] ?? null;
}

/**
 * Whether a flow shows the change of all runs together. None does if only other flows ran than before: nothing got
 * faster or slower then. Flows without a past say nothing about it.
 */
export function isOfFlows(verdict: Verdict, flows: readonly Omit<Compared, "name">[]): boolean {
  const known = flows.flatMap(({ current, previous }) => speedChange(current, previous) ?? []);
  return known.length === 0 || known.some((each) => each.verdict === verdict);
}

/** The success rates of two periods, if it fell by more than a figure of one digit shows. */
export function fallOf(current: Figures, previous: Figures): { from: number; to: number } | null {
  const [to, from] = [current.success_rate, previous.success_rate];
  return to === null || from === null || from - to < LEAST_FALL ? null : { from, to };
}

export type Order = "name" | "runs" | "success" | "p50" | "p95" | "change" | "queue";

interface Compared {
  name: string;
  current: Figures;
  previous: Figures;
}

const endedOf = ({ completed, failed, cancelled }: Figures): number => completed + failed + cancelled;

/** The most interesting first: most runs, lowest success, longest times, slowed down the most. */
const KEYS: Record<Exclude<Order, "name">, (row: Compared) => number> = {
  runs: ({ current }) => -endedOf(current),
  success: ({ current }) => current.success_rate ?? Number.POSITIVE_INFINITY,
  p50: ({ current }) => -(current.duration_ms.p50 ?? 0),
  p95: ({ current }) => -(current.duration_ms.p95 ?? 0),
  queue: ({ current }) => -(current.queue_ms.p95 ?? 0),
  change: ({ current, previous }) =>
    -(changeOf(current.duration_ms.p95, previous.duration_ms.p95) ?? Number.NEGATIVE_INFINITY),
};

export function sortedBy<T extends Compared>(rows: readonly T[], order: Order): T[] {
  const byName = (a: T, b: T) => a.name.localeCompare(b.name);
  if (order === "name") return rows.toSorted(byName);
  const key = KEYS[order];
  return rows.toSorted((a, b) => {
    const [first, second] = [key(a), key(b)];
    return first === second ? byName(a, b) : first - second;
  });
}
