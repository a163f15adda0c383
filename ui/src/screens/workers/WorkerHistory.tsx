/** When a worker came, left, and was paused or drained, and by whom. */
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Ago } from "../../ui/time";
import { messages } from "./messages";
import { StopReason } from "./WorkerDetails";
import styles from "./Workers.module.css";
import { historyOf, type Worker } from "./workers";

const EVERY_MS = 5_000;
const KINDS = [
  "started",
  "stopped",
  "disconnected",
  "reconnected",
  "paused",
  "resumed",
  "drain_requested",
  "hidden",
  "shown",
] as const;

export function WorkerHistory({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  const { worker_id } = worker;
  const { data } = useRead(
    ["workers", "one", worker_id],
    (signal) => api.GET("/workers/{worker_id}", { params: { path: { worker_id } }, signal }),
    { every: EVERY_MS },
  );
  const events = data ? historyOf(data) : [];
  return (
    <section>
      <h3>{t("history")}</h3>
      {data && events.length === 0 && <p className={styles.faint}>{t("noHistory")}</p>}
      <ol className={styles.history}>
        {events.map((event) => {
          const kind = KINDS.find((each) => each === event.kind);
          return (
            <li key={`${event.at} ${event.kind}`} data-event={event.kind}>
              <Ago at={event.at} />
              <span>
                {kind ? t(`event.${kind}`) : event.kind}
                {event.by && ` ${t("eventBy", { who: event.by })}`}
                {event.reason && (
                  <span className={styles.faint}>
                    {" "}
                    <StopReason reason={event.reason} />
                  </span>
                )}
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
