/** The flows with the most failures in the window, with their latest error. */

import { href, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Card } from "../../ui/Page";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { endedHref } from "./chart";
import styles from "./Home.module.css";
import { messages } from "./messages";
import type { Overview } from "./warnings";

export function FailingFlows({ overview }: { overview: Overview }) {
  const t = useMessages(messages);
  const { failing, window } = overview;
  return (
    <Card title={t("failing")} className={styles.list}>
      {failing.length === 0 && (
        <p className={styles.nothing}>{t("noneFailing", { within: t(`within.${window}`) })}</p>
      )}
      <ul>
        {failing.map((flow) => {
          const ended = flow.completed + flow.failed + flow.cancelled;
          return (
            <li key={flow.flow_name} className={styles.flow}>
              <a className={styles.flowName} href={endedHref(window, "failed", flow.flow_name)}>
                <UserText text={flow.flow_name} />
              </a>
              <span className={styles.flowCount}>{t("failedOf", { failed: flow.failed, ended })}</span>
              <span className={styles.flowBar} aria-hidden>
                <span style={{ width: `${(flow.failed / ended) * 100}%` }} />
              </span>
              <a className={styles.flowError} href={href(pathTo("/runs/:id", { id: flow.last_run_id }))}>
                {flow.last_error || t("noError")}
              </a>
              <span className={styles.flowAgo}>
                <Ago at={flow.last_failed_at} />
              </span>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}
