/** The data of the home screen, polled. */
import { api } from "../../api/client";
import { useConnection } from "../../api/connection";
import { prefetch, useRead } from "../../api/queries";
import { useNow } from "../../lib/clock";
import type { Window } from "./chart";
import { findWarnings, type HomeData, isAllKnown } from "./warnings";

const OFTEN_MS = 3_000;
const SOMETIMES_MS = 10_000;
const TWO_HOURS_SEC = 7_200;
const MANY = 200;

const overviewOf = (window: Window) =>
  [
    ["overview", window],
    (signal: AbortSignal) => api.GET("/overview", { params: { query: { window } }, signal }),
  ] as const;

export const prefetchHomeData = (window: Window): void => prefetch(...overviewOf(window));

export function useHomeData(window: Window) {
  const now = useNow();
  const { lostAt } = useConnection();
  const overview = useRead(...overviewOf(window), { every: OFTEN_MS, keep: true });
  const health = useRead(["health"], (signal) => api.GET("/health", { signal }), { every: OFTEN_MS });
  const waits = useRead(
    ["waits", "home"],
    (signal) => api.GET("/waits", { params: { query: { limit: 50 } }, signal }),
    { every: OFTEN_MS },
  );
  const workers = useRead(
    ["workers", "home"],
    (signal) => api.GET("/workers", { params: { query: { scope: "all", limit: 500 } }, signal }),
    { every: SOMETIMES_MS },
  );
  const letters = useRead(
    ["dlq", "home"],
    (signal) => {
      const since = Math.floor(Date.now() / 1000) - TWO_HOURS_SEC;
      return api.GET("/dlq", { params: { query: { state: "open", since, limit: MANY } }, signal });
    },
    { every: SOMETIMES_MS },
  );
  const data: HomeData = {
    health: health.data,
    overview: overview.data,
    workers: workers.data ?? [],
    waits: waits.data?.items ?? [],
    letters: letters.data?.items ?? [],
    moreLetters: letters.data?.next_cursor != null && letters.data.items.length >= MANY,
    now,
  };
  const reads = [overview, health, waits, workers, letters];
  return {
    overview,
    waits: waits.data,
    warnings: findWarnings(data),
    isAllKnown: isAllKnown(reads) && overview.data?.firing_alerts !== null && lostAt === null,
    problem: reads.find((each) => each.error)?.error ?? null,
  };
}
