import { describe, expect, it } from "vitest";
import { parseExposition, Scrape } from "./exposition";
import { flowRows, queueRows, requestRate, routeRows, throughputOf } from "./figures";

const PAGE = String.raw`# HELP pyoco_runs_total Stored runs, by status.
# TYPE pyoco_runs_total gauge
pyoco_runs_total{status="FAILED"} 2.0
pyoco_workers_alive_total 3.0
pyoco_runs_ended_total{flow="a \"b\", c",status="COMPLETED"} 8.0
pyoco_runs_ended_total{flow="a \"b\", c",status="FAILED"} 2.0
pyoco_run_duration_seconds_bucket{flow="a \"b\", c",le="0.5"} 4.0
pyoco_run_duration_seconds_bucket{flow="a \"b\", c",le="1.0"} 8.0
pyoco_run_duration_seconds_bucket{flow="a \"b\", c",le="+Inf"} 10.0
pyoco_queue_waiting_jobs{tag="gpu"} 1.0
pyoco_queue_waiting_jobs{tag="default"} 5.0
pyoco_queue_oldest_waiting_seconds{tag="default"} 1.5e+01
pyoco_http_requests_total{method="GET",route="/runs",status="200"} 90.0
pyoco_http_requests_total{method="GET",route="/runs",status="422"} 9.0
pyoco_http_requests_total{method="GET",route="/runs",status="503"} 1.0
pyoco_start_time_seconds 100.0
`;
const scrapeOf = (text: string, at = 1000) => new Scrape(at, parseExposition(text));

describe("the text format of Prometheus", () => {
  it("is read with labels, escapes and exponents", () => {
    expect(parseExposition(PAGE)).toContainEqual({
      name: "pyoco_runs_ended_total",
      labels: { flow: 'a "b", c', status: "FAILED" },
      value: 2,
    });
    const scrape = scrapeOf(PAGE);
    expect(scrape.sum("pyoco_queue_waiting_jobs")).toBe(6);
    expect(scrape.sum("pyoco_queue_oldest_waiting_seconds", { tag: "default" })).toBe(15);
    expect(scrape.sum("pyoco_nothing")).toBeNull();
  });

  it("gives quantiles as Prometheus does", () => {
    const histogram = scrapeOf(PAGE).histogram("pyoco_run_duration_seconds");
    expect(histogram.count).toBe(10);
    expect(histogram.quantile(0.5)).toBeCloseTo(0.5 + (0.5 * 1) / 4);
    expect(histogram.quantile(0.95)).toBe(1);
    expect(scrapeOf("").histogram("pyoco_run_duration_seconds").quantile(0.5)).toBeNull();
  });

  it("gives no quantile above the largest value", () => {
    const quantile = (max: number, share: number) =>
      scrapeOf(`${PAGE}pyoco_run_duration_max_seconds{flow="a"} ${max}\n`)
        .histogram("pyoco_run_duration_seconds")
        .quantile(share);
    // The sixth of ten values is in the bucket that ends at 1 s, the last ones are above.
    expect(quantile(0.7, 0.79)).toBeLessThanOrEqual(0.7);
    expect(quantile(0.7, 0.5)).toBeCloseTo(0.5 + 0.2 / 4);
    expect(quantile(3, 0.95)).toBeCloseTo(1 + (2 * 1.5) / 2);
    // Of one value: within its bucket p95 would be 14.5 s.
    const one = `pyoco_run_duration_seconds_bucket{flow="b",le="5.0"} 0
pyoco_run_duration_seconds_bucket{flow="b",le="15.0"} 1
pyoco_run_duration_seconds_bucket{flow="b",le="+Inf"} 1
pyoco_run_duration_max_seconds{flow="b"} 5.2
pyoco_runs_ended_total{flow="b",status="COMPLETED"} 1
`;
    const [row] = flowRows(scrapeOf(one));
    expect(row?.duration.p95).toBeLessThanOrEqual(5.2);
  });
});

describe("the rows", () => {
  it("are those of flows, queues and routes", () => {
    const scrape = scrapeOf(PAGE);
    expect(flowRows(scrape)).toMatchObject([
      { flow: 'a "b", c', ended: 10, failed: 2, start: { p50: null, p95: null }, duration: { p95: 1 } },
    ]);
    expect(queueRows(scrape).map(({ tag, waiting }) => [tag, waiting])).toEqual([
      ["default", 5],
      ["gpu", 1],
    ]);
    expect(routeRows(scrape)).toMatchObject([{ route: "/runs", requests: 100, rejected: 9, failed: 1 }]);
  });
});

describe("the rate of requests", () => {
  const at = (seconds: number, requests: number, start: number) =>
    scrapeOf(
      `pyoco_http_requests_total{method="GET",route="/",status="200"} ${requests}\npyoco_start_time_seconds ${start}`,
      seconds,
    );
  it("is that of one gateway", () => {
    expect(requestRate([at(10, 100, 1), at(15, 7, 2), at(20, 150, 1)])).toBe(5);
  });
  it("is that since its start while there is one scrape of it", () => {
    expect(requestRate([at(11, 100, 1)])).toBe(10);
    expect(requestRate([at(10, 100, 1), at(16, 7, 2)])).toBe(0.5);
    // The clock of the browser is behind.
    expect(requestRate([at(10, 100, 12)])).toBe(100);
    expect(requestRate([scrapeOf("", 10)])).toBeNull();
    expect(requestRate([])).toBeNull();
  });
});

describe("the throughput", () => {
  const minute = (at: number, completed: number, failed = 0) => ({ at, completed, failed, cancelled: 0 });
  const overview = (ended: ReturnType<typeof minute>[]) =>
    ({ ended }) as unknown as Parameters<typeof throughputOf>[0];
  it("is the mean of the last whole minutes", () => {
    const ended = [minute(0, 50), ...[60, 120, 180, 240, 300].map((at) => minute(at, 3, 1)), minute(360, 1)];
    expect(throughputOf(overview(ended))).toMatchObject({ perMinute: 4, failedShare: 5 / 71 });
    expect(throughputOf(overview([minute(0, 0)])).failedShare).toBeNull();
  });
});
