/** The flows that fail most, by count or by rate, each with its recent ends and its latest error. */
import { useState } from "react";
import { href, pathTo } from "../../app/router";
import { countOf } from "../../charts/ends";
import { Sparkline } from "../../flows/Bars";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { Segments } from "../../ui/controls";
import { Card } from "../../ui/Page";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { endedHref } from "./chart";
import { type FailingOrder, percentOf, sortedFailing } from "./failing";
import styles from "./Home.module.css";
import { messages } from "./messages";
import type { Overview } from "./warnings";

const SHOWN = 10;
const ORDERS: readonly FailingOrder[] = ["count", "rate"];

export function FailingFlows({ overview }: { overview: Overview }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const [order, setOrder] = useState<FailingOrder>("count");
  const { failing, window, ended, stretch_sec: bucketSec } = overview;
  const since = ended[0]?.at ?? overview.since;
  return (
    <Card
      title={t("failing")}
      className={styles.list}
      actions={
        failing.length > 1 && (
          <Segments
            label={t("failingOrder")}
            value={order}
            options={ORDERS.map((value) => ({ value, label: t(`failingOrder.${value}`) }))}
            onChange={setOrder}
          />
        )
      }
    >
      {failing.length === 0 && (
        <p className={styles.nothing}>{t("noneFailing", { within: t(`within.${window}`) })}</p>
      )}
      <ul>
        {sortedFailing(failing, order)
          .slice(0, SHOWN)
          .map((flow) => (
            <li key={flow.flow_name} className={styles.flow}>
              <a className={styles.flowName} href={endedHref(window, "failed", flow.flow_name)}>
                <UserText text={flow.flow_name} />
              </a>
              <a className={styles.flowCount} href={endedHref(window, "failed", flow.flow_name)}>
                <strong>{percentOf(flow, language)}</strong>{" "}
                {t("failedOf", { failed: flow.failed, ended: countOf(flow) })}
              </a>
              <span className={styles.flowEnds}>
                <Sparkline
                  statistics={{ since, bucket_sec: bucketSec, sparkline: flow.sparkline }}
                  label={t("recentEnds", { flow: flow.flow_name })}
                />
              </span>
              <a className={styles.flowError} href={href(pathTo("/runs/:id", { id: flow.last_run_id }))}>
                {flow.last_error || t("noError")}
              </a>
              <span className={styles.flowAgo}>
                <Ago at={flow.last_failed_at} />
              </span>
            </li>
          ))}
      </ul>
    </Card>
  );
}
