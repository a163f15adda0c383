/** The figures of the period, each with its change, and whether runs got slower. */
import { TrendingDown, TrendingUp } from "lucide-react";
import type { ReactNode } from "react";
import { href } from "../../../app/router";
import { countOf } from "../../../charts/ends";
import { endedBetween, type OnlyRuns } from "../../../charts/runLinks";
import { useMessages } from "../../../i18n/messages";
import { joined } from "../../../ui/controls";
import { changeOf, fallOf, isOfFlows, type Statistics, speedChange, verdictOf } from "./compare";
import { useFormats } from "./formats";
import { messages } from "./messages";
import styles from "./Runs.module.css";

interface FiguresProps {
  statistics: Statistics;
  only: OnlyRuns;
}

export function PeriodFigures({ statistics, only }: FiguresProps) {
  const t = useMessages(messages);
  const format = useFormats();
  const { current, previous, since, at, slots, period } = statistics;
  const runs = endedBetween(since, Math.ceil(at), undefined, only);
  const [rate, before] = [current.success_rate, previous.success_rate];
  const throughput = changeOf(current.per_hour, previous.per_hour);
  return (
    <>
      <Speed statistics={statistics} only={only} />
      <ul className={styles.figures} aria-label={t("figures")}>
        <Figure label={t("throughput")} value={format.rate(current.per_hour, previous.per_hour)} to={runs}>
          <Change
            text={throughput === null ? null : format.change(throughput)}
            before={countOf(previous) > 0 ? format.rate(previous.per_hour, current.per_hour) : null}
          />
          <span>{t("endedCount", { count: countOf(current) })}</span>
        </Figure>
        <Figure
          label={t("success")}
          value={format.percent(rate)}
          to={endedBetween(since, Math.ceil(at), "failed", only)}
        >
          <Change
            text={rate === null || before === null ? null : format.points(rate - before)}
            before={before === null ? null : format.percent(before)}
            isGood={rate === before ? undefined : (rate ?? 0) > (before ?? 0)}
          />
          <span>{t("failedCount", { count: current.failed })}</span>
        </Figure>
        {(["duration", "queue"] as const).map((of) =>
          (["p50", "p95"] as const).map((quantile) => {
            const [now, then] = [current[`${of}_ms`][quantile], previous[`${of}_ms`][quantile]];
            const change = changeOf(now, then);
            const verdict = change === null ? "same" : verdictOf(change);
            return (
              <Figure key={of + quantile} label={t(`${of}.${quantile}`)} value={format.time(now)}>
                <Change
                  text={change === null ? null : verdict === "same" ? t("same") : format.change(change)}
                  before={then === null ? null : format.time(then)}
                  isGood={verdict === "same" ? undefined : verdict === "faster"}
                />
              </Figure>
            );
          }),
        )}
        <Figure
          label={t("slots")}
          value={t("slotsOf", { busy: slots.slots_busy, slots: slots.slots })}
          to={href("/workers", { q: only.tag })}
        >
          <span>{t("workersNow", { count: slots.workers })}</span>
        </Figure>
      </ul>
      {countOf(previous) === 0 && <p className={styles.soft}>{t(`noneBefore.${period}`)}</p>}
    </>
  );
}

/** "Slower than in the 7 days before": the answer in one line. */
function Speed({ statistics, only }: FiguresProps) {
  const t = useMessages(messages);
  const format = useFormats();
  const speed = speedChange(statistics.current, statistics.previous);
  const fall = fallOf(statistics.current, statistics.previous);
  if (fall)
    return (
      <p className={joined(styles.speed, styles.slower)} role="status" data-speed="fell">
        <TrendingDown size={16} aria-hidden />
        {t("fell", {
          of: only.flow ?? t("allRuns"),
          before: t(`before.${statistics.period}`),
          from: format.percent(fall.from),
          to: format.percent(fall.to),
        })}
      </p>
    );
  if (!speed || (!only.flow && !isOfFlows(speed.verdict, statistics.flows))) return null;
  const { verdict, quantile } = speed;
  const of = only.flow ?? t("allRuns");
  const values = {
    of,
    before: t(`before.${statistics.period}`),
    quantile: t(`quantile.${quantile}`),
    current: format.time(speed.current),
    previous: format.time(speed.previous),
    change: format.change(speed.change),
  };
  return (
    <p className={joined(styles.speed, styles[verdict])} role="status" data-speed={verdict}>
      {verdict === "slower" && <TrendingUp size={16} aria-hidden />}
      {verdict === "faster" && <TrendingDown size={16} aria-hidden />}
      {t(`speed.${verdict}`, values)}
    </p>
  );
}

interface FigureProps {
  label: string;
  value: string;
  /** What it counts. */
  to?: string;
  children: ReactNode;
}

function Figure({ label, value, to, children }: FigureProps) {
  const content = (
    <>
      <span className={styles.figureLabel}>{label}</span>
      <span className={styles.figureValue}>{value}</span>
      {children}
    </>
  );
  return (
    <li>
      {to ? (
        <a className={styles.figure} href={to}>
          {content}
        </a>
      ) : (
        <div className={styles.figure}>{content}</div>
      )}
    </li>
  );
}

interface ChangeProps {
  text: string | null;
  /** The value of the period before. */
  before: string | null;
  isGood?: boolean;
}

function Change({ text, before, isGood }: ChangeProps) {
  const t = useMessages(messages);
  if (before === null) return <span className={styles.soft}>{t("nothingBefore")}</span>;
  return (
    <span className={styles.change}>
      {text && (
        <strong className={joined(isGood === true && styles.good, isGood === false && styles.bad)}>
          {text}
        </strong>
      )}{" "}
      {t("was", { value: before })}
    </span>
  );
}
