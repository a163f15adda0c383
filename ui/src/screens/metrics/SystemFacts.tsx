/** The state of this gateway and of NATS; only the operator has these. */
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { relativeTime } from "../../i18n/time";
import { Card } from "../../ui/Page";
import type { Scrape } from "./exposition";
import styles from "./Metrics.module.css";
import { messages } from "./messages";

export function SystemFacts({ scrape }: { scrape: Scrape }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const started = scrape.sum("pyoco_start_time_seconds");
  if (started === null) return null;
  const count = (name: string) => (scrape.sum(name) ?? 0).toLocaleString(language);
  const writable = scrape.sum("pyoco_nats_writable") === 1;
  const connected = scrape.sum("pyoco_nats_connected") === 1;
  const facts: [string, string][] = [
    [t("nats"), t(!connected ? "notConnected" : writable ? "connected" : "notWritable")],
    [t("reconnects"), count("pyoco_nats_reconnects_total")],
    ...scrape.all("pyoco_nats_free_bytes").map(({ labels, value }): [string, string] => {
      const limit = scrape.sum("pyoco_nats_limit_bytes", labels) ?? 0;
      return [
        t("free", { of: labels.of ?? "" }),
        t("freeOf", { free: fileSize(value), limit: fileSize(limit) }),
      ];
    }),
    [t("sweep"), t(scrape.sum("pyoco_sweep_leader") === 1 ? "leader" : "follower")],
    [t("watchers"), count("pyoco_watchers")],
    [t("unreadable"), count("pyoco_unreadable_records")],
    [t("started"), relativeTime(started, scrape.at, language) ?? t("none")],
  ];
  return (
    <Card title={t("system")}>
      <dl className={styles.facts}>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
