/** The values of the charts as a table. */

import { countOf } from "../../../charts/ends";
import { endedBetween, type OnlyRuns } from "../../../charts/runLinks";
import { intervalLabel } from "../../../charts/timeAxis";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { joined } from "../../../ui/controls";
import { TableHead } from "../../../ui/TableHead";
import base from "../ScrollTable.module.css";
import type { Statistics } from "./compare";
import { useFormats } from "./formats";
import { messages } from "./messages";
import styles from "./Runs.module.css";

export function ValueTable({ statistics, only }: { statistics: Statistics; only: OnlyRuns }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { number, percent, time } = useFormats();
  const { buckets, since, bucket_sec: step } = statistics;
  return (
    <details className={styles.values}>
      <summary>{t("asTable")}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard. */}
      <div className={base.scroll} tabIndex={0} role="region" aria-label={t("asTable")}>
        <table className={joined(base.table, styles.table)}>
          <TableHead
            columns={[
              t("time"),
              t("ended"),
              t("end.failed"),
              t("success"),
              t("duration.p50"),
              t("duration.p95"),
              t("queue.p50"),
              t("queue.p95"),
            ]}
          />
          <tbody>
            {buckets.map((bucket, index) => {
              const start = since + index * step;
              return (
                <tr key={start}>
                  <th scope="row">{intervalLabel(start, step, language)}</th>
                  <td>
                    <a href={endedBetween(start, start + step, undefined, only)}>{number(countOf(bucket))}</a>
                  </td>
                  <td>{number(bucket.failed)}</td>
                  <td>{percent(bucket.success_rate)}</td>
                  <td>{time(bucket.duration_ms.p50)}</td>
                  <td>{time(bucket.duration_ms.p95)}</td>
                  <td>{time(bucket.queue_ms.p50)}</td>
                  <td>{time(bucket.queue_ms.p95)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </details>
  );
}
