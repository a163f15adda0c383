/** How the runs of a flow ended: a bar for the success rate, and a sparkline. */
import { useLanguage } from "../i18n/language";
import { useMessages } from "../i18n/messages";
import { exactTime } from "../i18n/time";
import { joined } from "../ui/controls";
import styles from "./Flows.module.css";
import type { FlowStatistics } from "./flowApi";
import { messages } from "./messages";

export function SuccessBar({ statistics }: { statistics: FlowStatistics | undefined }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const rate = statistics?.success_rate;
  if (rate == null) return <span className={styles.soft}>{t("noRuns")}</span>;
  const text = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 }).format(rate);
  return (
    <span className={styles.success} title={t("successRate")}>
      <span className={joined(styles.rate, rate < 1 && styles.someFailed)} aria-hidden>
        <span style={{ width: `${100 * rate}%` }} />
      </span>
      <span>{text}</span>
    </span>
  );
}

const ENDS = ["completed", "cancelled", "failed"] as const;

interface SparklineProps {
  statistics: Pick<FlowStatistics, "since" | "bucket_sec" | "sparkline">;
  label: string;
}

/** A bar per part of the window, as high as the number of runs that ended in it. */
export function Sparkline({ statistics, label }: SparklineProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { sparkline, since, bucket_sec: step } = statistics;
  const parts = sparkline.completed.map((completed, index) => ({
    at: since + index * step,
    completed,
    cancelled: sparkline.cancelled[index] ?? 0,
    failed: sparkline.failed[index] ?? 0,
  }));
  const most = Math.max(1, ...parts.map((each) => each.completed + each.cancelled + each.failed));
  return (
    <span className={styles.sparkline} role="img" aria-label={label}>
      {parts.map((part) => (
        <span
          key={part.at}
          title={`${exactTime(part.at, language)}\n${t("endedCounts", {
            completed: part.completed,
            failed: part.failed,
            cancelled: part.cancelled,
          })}`}
        >
          {ENDS.map((end) => (
            <span key={end} className={styles[end]} style={{ height: `${(100 * part[end]) / most}%` }} />
          ))}
        </span>
      ))}
    </span>
  );
}
