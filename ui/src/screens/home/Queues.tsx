/** Pending and running runs by tag: the same counts as those of lists. */

import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { joined } from "../../ui/controls";
import { Card } from "../../ui/Page";
import { TableHead } from "../../ui/TableHead";
import { age, oldestPendingSec } from "./age";
import styles from "./Home.module.css";
import { messages } from "./messages";
import type { Overview } from "./warnings";

const SHOWN = 8;

export function Queues({ overview }: { overview: Overview }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const shown = overview.queues.slice(0, SHOWN);
  const rest = overview.queues.length - shown.length;
  return (
    <Card title={t("queues")} className={styles.list}>
      {shown.length === 0 ? (
        <p className={styles.nothing}>{t("noQueues")}</p>
      ) : (
        <table className={styles.queues}>
          <TableHead
            columns={[t("queueTag"), t("pending"), t("queueAge"), t("running"), t("queueWorkers")]}
          />
          <tbody>
            {shown.map((queue) => (
              <tr
                key={queue.tag}
                className={joined(
                  queue.pending + queue.running > 0 && queue.workers === 0 && styles.unserved,
                )}
              >
                <th scope="row">
                  <a href={href("/runs", { tag: queue.tag })}>{queue.tag}</a>
                </th>
                <td>
                  <a href={href("/runs", { tag: queue.tag, status: "PENDING" })}>
                    {queue.pending.toLocaleString(language)}
                  </a>
                </td>
                <td>
                  <Oldest queue={queue} />
                </td>
                <td>
                  <a href={href("/runs", { tag: queue.tag, status: "RUNNING" })}>
                    {queue.running.toLocaleString(language)}
                  </a>
                </td>
                <td>
                  <a href={href("/workers", { q: queue.tag })}>{queue.workers.toLocaleString(language)}</a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {rest > 0 && <p className={styles.nothing}>{t("and", { count: rest })}</p>}
    </Card>
  );
}

function Oldest({ queue }: { queue: Overview["queues"][number] }) {
  const waits = oldestPendingSec([queue]);
  return waits === null ? "–" : age(waits);
}
