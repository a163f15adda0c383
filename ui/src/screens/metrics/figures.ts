/** What the screen shows, computed from scrapes and the overview. */
import type { Schemas } from "../../api/client";
import type { Histogram, Scrape } from "./exposition";

export interface Latency {
  p50: number | null;
  p95: number | null;
}

const latencyOf = (histogram: Histogram): Latency => ({
  p50: histogram.quantile(0.5),
  p95: histogram.quantile(0.95),
});

export interface FlowRow {
  flow: string;
  ended: number;
  failed: number;
  start: Latency;
  duration: Latency;
}

const ENDED = "pyoco_runs_ended_total";
const TO_START = "pyoco_run_schedule_to_start_seconds";
const DURATION = "pyoco_run_duration_seconds";

/** The flows that had runs while the gateway was running, the busiest first. */
export function flowRows(scrape: Scrape): FlowRow[] {
  const flows = new Set([...scrape.values(ENDED, "flow"), ...scrape.values(`${TO_START}_bucket`, "flow")]);
  return [...flows]
    .map((flow) => ({
      flow,
      ended: scrape.sum(ENDED, { flow }) ?? 0,
      failed: scrape.sum(ENDED, { flow, status: "FAILED" }) ?? 0,
      start: latencyOf(scrape.histogram(TO_START, { flow })),
      duration: latencyOf(scrape.histogram(DURATION, { flow })),
    }))
    .sort((a, b) => b.ended - a.ended || a.flow.localeCompare(b.flow));
}

export const startLatency = (scrape: Scrape): Latency => latencyOf(scrape.histogram(TO_START));

export interface QueueRow {
  tag: string;
  waiting: number;
  oldestSec: number;
  inWork: number;
  redelivered: number;
}

export const queueRows = (scrape: Scrape): QueueRow[] =>
  scrape
    .values("pyoco_queue_waiting_jobs", "tag")
    .map((tag) => ({
      tag,
      waiting: scrape.sum("pyoco_queue_waiting_jobs", { tag }) ?? 0,
      oldestSec: scrape.sum("pyoco_queue_oldest_waiting_seconds", { tag }) ?? 0,
      inWork: scrape.sum("pyoco_queue_in_work_jobs", { tag }) ?? 0,
      redelivered: scrape.sum("pyoco_queue_redelivered_jobs", { tag }) ?? 0,
    }))
    .sort((a, b) => b.waiting - a.waiting || b.inWork - a.inWork || a.tag.localeCompare(b.tag));

export interface RouteRow {
  route: string;
  requests: number;
  rejected: number;
  failed: number;
  latency: Latency;
}

const REQUESTS = "pyoco_http_requests_total";

/** Requests by route, the most frequent first; only the operator has them. */
export const routeRows = (scrape: Scrape): RouteRow[] =>
  scrape
    .values(REQUESTS, "route")
    .map((route) => {
      const samples = scrape.all(REQUESTS).filter(({ labels }) => labels.route === route);
      const withStatus = (first: string) =>
        samples
          .filter(({ labels }) => labels.status?.startsWith(first))
          .reduce((sum, { value }) => sum + value, 0);
      return {
        route,
        requests: samples.reduce((sum, { value }) => sum + value, 0),
        rejected: withStatus("4"),
        failed: withStatus("5"),
        latency: latencyOf(scrape.histogram("pyoco_http_request_seconds", { route })),
      };
    })
    .sort((a, b) => b.requests - a.requests);

/** Requests per second between the two last scrapes of the same gateway; of a single one, since its start. */
export function requestRate(scrapes: readonly Scrape[]): number | null {
  const last = scrapes.at(-1);
  const start = last?.sum("pyoco_start_time_seconds");
  // Behind a load balancer the one before may be of another gateway.
  const before = scrapes
    .slice(0, -1)
    .findLast((each) => each.sum("pyoco_start_time_seconds") === start && last && last.at - each.at >= 1);
  if (!last || start == null) return null;
  // The clocks of the gateway and of this browser may differ.
  if (!before) return (last.sum(REQUESTS) ?? 0) / Math.max(1, last.at - start);
  const more = (last.sum(REQUESTS) ?? 0) - (before.sum(REQUESTS) ?? 0);
  return more / (last.at - before.at);
}

type Overview = Schemas["Overview"];

export interface Throughput {
  perMinute: number;
  failedShare: number | null;
  /** Ended runs of each minute. */
  minutes: { at: number; value: number }[];
}

const RECENT_MINUTES = 5;

/** From the overview of an hour: it is the same on every gateway, and known at once. */
export function throughputOf({ ended }: Overview): Throughput {
  const minutes = ended.map(({ at, completed, failed, cancelled }) => ({
    at,
    value: completed + failed + cancelled,
  }));
  // The last minute is not over.
  const recent = minutes.slice(0, -1).slice(-RECENT_MINUTES);
  const all = minutes.reduce((sum, { value }) => sum + value, 0);
  const failed = ended.reduce((sum, each) => sum + each.failed, 0);
  return {
    perMinute: recent.reduce((sum, { value }) => sum + value, 0) / Math.max(1, recent.length),
    failedShare: all > 0 ? failed / all : null,
    minutes,
  };
}
