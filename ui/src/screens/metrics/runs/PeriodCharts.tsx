/** Ended runs, success rate, durations and queue times over the period, with the period before as a line. */
import { type ReactNode, useState } from "react";
import { countOf } from "../../../charts/ends";
import { endEntries, Legend, type LegendEntry } from "../../../charts/Legend";
import { endedBetween, type OnlyRuns } from "../../../charts/runLinks";
import { type Line, TimeChart } from "../../../charts/TimeChart";
import { intervalLabel, roundedUp, roundedUpDuration } from "../../../charts/timeAxis";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { Card } from "../../../ui/Page";
import type { Figures, Statistics } from "./compare";
import { useFormats } from "./formats";
import { messages } from "./messages";
import styles from "./Runs.module.css";

interface ChartsProps {
  statistics: Statistics;
  only: OnlyRuns;
}

export function PeriodCharts({ statistics, only }: ChartsProps) {
  return (
    <div className={styles.charts}>
      <EndedCard statistics={statistics} only={only} />
      <SuccessCard statistics={statistics} only={only} />
      <TimesCard statistics={statistics} only={only} of="duration" />
      <TimesCard statistics={statistics} only={only} of="queue" />
    </div>
  );
}

function EndedCard({ statistics, only }: ChartsProps) {
  const t = useMessages(messages);
  const { number } = useFormats();
  const { buckets, since, bucket_sec: step } = statistics;
  const before = earlier(statistics).map(countOf);
  return (
    <PeriodChart
      statistics={statistics}
      only={only}
      title={t("ended")}
      top={roundedUp(Math.max(...buckets.map(countOf), ...before))}
      mark={number}
      lines={[{ name: "before", kind: "before", values: before }]}
      bars
      entries={(index) => [
        ...endEntries(
          buckets[index ?? -1] ?? statistics.current,
          (end) => t(`end.${end}`),
          number,
          (end) =>
            index === null
              ? endedBetween(since, Math.ceil(statistics.at), end, only)
              : endedBetween(since + index * step, since + (index + 1) * step, end, only),
        ),
        {
          name: t("before"),
          value: number(index === null ? countOf(statistics.previous) : (before[index] ?? 0)),
          mark: "before",
        },
      ]}
    />
  );
}

function SuccessCard({ statistics, only }: ChartsProps) {
  const t = useMessages(messages);
  const { percent } = useFormats();
  const { current, previous, buckets } = statistics;
  const before = earlier(statistics);
  return (
    <PeriodChart
      statistics={statistics}
      only={only}
      title={t("success")}
      top={1}
      mark={percent}
      lines={[
        { name: "before", kind: "before", values: before.map((each) => each.success_rate) },
        { name: "current", kind: "main", values: buckets.map((each) => each.success_rate) },
      ]}
      entries={(index) => [
        { name: t("success"), value: percent(at(buckets, index, current).success_rate), mark: "main" },
        { name: t("before"), value: percent(at(before, index, previous).success_rate), mark: "before" },
      ]}
    />
  );
}

function TimesCard({ statistics, only, of }: ChartsProps & { of: "duration" | "queue" }) {
  const t = useMessages(messages);
  const { time } = useFormats();
  const { current, previous, buckets } = statistics;
  const before = earlier(statistics);
  const p50 = (each: Figures) => each[`${of}_ms`].p50;
  const p95 = (each: Figures) => each[`${of}_ms`].p95;
  const most = Math.max(...[...buckets, ...before].map((each) => p95(each) ?? 0));
  return (
    <PeriodChart
      statistics={statistics}
      only={only}
      title={t(of)}
      top={1000 * roundedUpDuration(most / 1000)}
      mark={(ms) => (ms === 0 ? "0" : time(ms))}
      lines={[
        { name: "before", kind: "before", values: before.map(p95) },
        { name: "p95", kind: "second", values: buckets.map(p95) },
        { name: "p50", kind: "main", values: buckets.map(p50) },
      ]}
      entries={(index) => [
        { name: "p50", value: time(p50(at(buckets, index, current))), mark: "main" },
        { name: "p95", value: time(p95(at(buckets, index, current))), mark: "second" },
        { name: t("p95Before"), value: time(p95(at(before, index, previous))), mark: "before" },
      ]}
    />
  );
}

const NO_RUNS: Figures = {
  completed: 0,
  failed: 0,
  cancelled: 0,
  per_hour: 0,
  success_rate: null,
  duration_ms: { p50: null, p95: null },
  queue_ms: { p50: null, p95: null },
};

/** Of each bucket the one a period earlier; that of the last one, which is not over, is the first of this period. */
const earlier = ({ buckets, previous_buckets: previous }: Statistics): Figures[] => [
  ...previous,
  ...buckets.slice(0, buckets.length - previous.length),
];

/** The figures of a bucket; without an index those of the period. */
const at = (buckets: readonly Figures[], index: number | null, all: Figures): Figures =>
  index === null ? all : (buckets[index] ?? NO_RUNS);

interface PeriodChartProps extends ChartsProps {
  title: string;
  top: number;
  mark: (value: number) => string;
  lines: readonly Line[];
  /** Whether ended runs are drawn as bars. */
  bars?: boolean;
  /** The values of a bucket, or of the whole period. */
  entries: (index: number | null) => LegendEntry[];
}

function PeriodChart(props: PeriodChartProps): ReactNode {
  const { statistics, only, title, top, mark, lines, bars, entries } = props;
  const t = useMessages(messages);
  const language = useLanguage();
  const [pointedAt, setPointedAt] = useState<number | null>(null);
  const { buckets, since, bucket_sec: step, period } = statistics;
  const index = pointedAt === null ? null : Math.round((pointedAt - since) / step);
  const isShown = index !== null && index >= 0 && index < buckets.length;
  const text = (each: LegendEntry) => `${each.name} ${each.value}`;
  return (
    <Card
      title={title}
      className={styles.chart}
      actions={
        <Legend
          time={isShown ? intervalLabel(since + index * step, step, language) : t(`last.${period}`)}
          entries={entries(isShown ? index : null)}
        />
      }
    >
      <TimeChart
        label={t("chartLabel", { title })}
        intervals={buckets.map((bucket, number) => {
          const start = since + number * step;
          const values = entries(number).map(text).join(", ");
          return {
            at: start,
            href: endedBetween(start, start + step, undefined, only),
            label: `${intervalLabel(start, step, language)}: ${values}`,
            ended: bars ? bucket : undefined,
          };
        })}
        intervalSec={step}
        top={top}
        mark={mark}
        lines={lines}
        empty={countOf(statistics.current) === 0 && t(`quiet.${period}`)}
        onPoint={setPointedAt}
      />
    </Card>
  );
}
