/** Statistics of a period, and the names of all flows and tags in it. */
import { api } from "../../../api/client";
import { useRead } from "../../../api/queries";
import type { OnlyRuns } from "../../../charts/runLinks";
import type { Period } from "./compare";

const EVERY_MS = 15_000;

const statisticsOf = (period: Period, only: OnlyRuns) =>
  [
    ["statistics", period, only.flow ?? null, only.tag ?? null],
    (signal: AbortSignal) => api.GET("/statistics", { params: { query: { period, ...only } }, signal }),
  ] as const;

export function useStatistics(period: Period, only: OnlyRuns) {
  const statistics = useRead(...statisticsOf(period, only), { every: EVERY_MS, keep: true });
  // The same request while nothing is filtered.
  const all = useRead(...statisticsOf(period, {}), { keep: true });
  return { statistics, all: all.data };
}
