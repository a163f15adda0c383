import type { Schemas } from "../../api/client";
import { wantsApiKey } from "../../app/pageConfig";
import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { duration } from "../../i18n/time";
import { Loading, ProblemBox } from "../../ui/feedback";
import { Card } from "../../ui/Page";
import type { Scrape } from "./exposition";
import { Figure as FigureItem, type FigureProps } from "./Figure";
import { queueRows, requestRate, routeRows, startLatency, throughputOf } from "./figures";
import styles from "./Metrics.module.css";
import { messages } from "./messages";
import { SystemFacts } from "./SystemFacts";
import { FlowTable, QueueTable, RouteTable } from "./Tables";
import { type Point, Trend } from "./Trend";
import { KEPT_SEC, useMetrics } from "./useMetrics";

const HOUR_SEC = 3_600;
const MINUTE_SEC = 60;

export function GatewayMetrics() {
  const t = useMessages(messages);
  const { metrics, overview } = useMetrics();
  const scrapes = metrics.data?.scrapes ?? [];
  const latest = scrapes.at(-1);
  const problem = metrics.error ?? overview.error;
  return (
    <div className={styles.metrics}>
      <p className={styles.soft}>
        {t("live")}
        {!wantsApiKey && (
          <>
            {" · "}
            <a href="/metrics">{t("raw")}</a>
          </>
        )}
      </p>
      {problem && <ProblemBox problem={problem} onRetry={() => void metrics.refetch()} />}
      {!latest && !problem && <Loading />}
      {latest && (
        <>
          {latest.sum("pyoco_start_time_seconds") === null && (
            <p className={styles.soft}>{t("tenantOnly")}</p>
          )}
          <Figures scrapes={scrapes} latest={latest} overview={overview.data} />
          <Trends scrapes={scrapes} latest={latest} overview={overview.data} />
          <FlowTable scrape={latest} />
          <div className={styles.columns}>
            <QueueTable rows={queueRows(latest)} />
            <SystemFacts scrape={latest} />
          </div>
          <RouteTable rows={routeRows(latest)} />
        </>
      )}
    </div>
  );
}

interface ScrapesProps {
  scrapes: readonly Scrape[];
  latest: Scrape;
  overview: Schemas["Overview"] | undefined;
}

function Figures({ scrapes, latest, overview }: ScrapesProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const short = (value: number) =>
    value.toLocaleString(language, { maximumFractionDigits: value < 10 ? 1 : 0 });
  const time = (seconds: number | null) => (seconds === null ? t("none") : duration(seconds, language));
  const throughput = overview && throughputOf(overview);
  const queues = queueRows(latest);
  const oldest = Math.max(0, ...queues.map(({ oldestSec }) => oldestSec));
  const start = startLatency(latest);
  const slots = latest.sum("pyoco_worker_slots") ?? 0;
  const busy = latest.sum("pyoco_worker_slots_busy") ?? 0;
  const waits = latest.sum("pyoco_waits_open") ?? 0;
  const letters = latest.sum("pyoco_dlq_messages_total");
  const rate = requestRate(scrapes);
  const requestP95 = latest.histogram("pyoco_http_request_seconds").quantile(0.95);
  return (
    <ul className={styles.figures} aria-label={t("figures")}>
      <Figure
        to={href("/", { window: "1h" })}
        label={t("throughput")}
        value={throughput ? t("perMinute", { count: short(throughput.perMinute) }) : t("none")}
      >
        {throughput && throughput.failedShare !== null
          ? t("failedShare", { share: percent(throughput.failedShare, language) })
          : t("noEnds")}
      </Figure>
      <Figure
        to={href("/runs", { status: "PENDING" })}
        label={t("waitingJobs")}
        value={short(queues.reduce((sum, { waiting }) => sum + waiting, 0))}
      >
        {oldest > 0 ? t("oldest", { time: time(oldest) }) : t("noneWaiting")}
      </Figure>
      <Figure
        to={href("/workers")}
        label={t("slots")}
        value={slots > 0 ? percent(busy / slots, language) : t("none")}
      >
        {t("slotsOf", { busy, slots, count: latest.sum("pyoco_workers_alive_total") ?? 0 })}
      </Figure>
      <Figure label={t("toStart")} value={time(start.p95)}>
        {start.p95 === null ? t("sinceStart") : t("p95of", { time: time(start.p50) })}
      </Figure>
      <Figure to={href("/inbox")} label={t("openWaits")} value={short(waits)}>
        {waits > 0
          ? t("oldestWait", { time: time(latest.sum("pyoco_waits_oldest_open_seconds")) })
          : t("noWaits")}
      </Figure>
      {letters !== null && (
        <Figure to={href("/dlq")} label={t("deadLetters")} value={short(letters)}>
          {t("stored")}
        </Figure>
      )}
      {latest.all("pyoco_http_requests_total").length > 0 && (
        <Figure
          label={t("requests")}
          value={rate === null ? t("none") : t("perSecond", { count: short(rate) })}
        >
          {t("requestP95", { time: time(requestP95) })}
        </Figure>
      )}
    </ul>
  );
}

const percent = (share: number, language: string): string =>
  share.toLocaleString(language, { style: "percent", maximumFractionDigits: share < 0.1 ? 1 : 0 });

const Figure = ({ children, ...rest }: FigureProps) => (
  <FigureItem className={styles.figure} {...rest}>
    <span className={styles.soft}>{children}</span>
  </FigureItem>
);

function Trends({ scrapes, latest, overview }: ScrapesProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const ended = overview ? throughputOf(overview).minutes : [];
  const over = (name: string): Point[] =>
    scrapes.map((each) => ({ at: each.at, value: each.sum(name) ?? 0 }));
  const text = (label: string, points: readonly Point[]) =>
    t("trendText", {
      label,
      value: (points.at(-1)?.value ?? 0).toLocaleString(language),
      top: Math.max(0, ...points.map(({ value }) => value)).toLocaleString(language),
    });
  const waiting = over("pyoco_queue_waiting_jobs");
  const busy = over("pyoco_worker_slots_busy");
  const hourAgo = ended[0]?.at ?? latest.at - HOUR_SEC;
  const recent = { from: latest.at - KEPT_SEC, to: latest.at };
  return (
    <Card title={t("trends")}>
      <div className={styles.trends}>
        <Trend
          label={t("trend.ended")}
          description={text(t("trend.ended"), ended)}
          points={ended}
          from={hourAgo}
          to={(ended.at(-1)?.at ?? latest.at) + MINUTE_SEC}
          barSec={MINUTE_SEC}
        />
        <Trend
          label={t("trend.waiting")}
          description={text(t("trend.waiting"), waiting)}
          points={waiting}
          {...recent}
        />
        <Trend
          label={t("trend.busy")}
          description={text(t("trend.busy"), busy)}
          points={busy}
          least={latest.sum("pyoco_worker_slots") || 1}
          {...recent}
        />
      </div>
      <p className={styles.trendNote}>{t("notStored")}</p>
    </Card>
  );
}
