import { api } from "../../../api/client";
import { useRead } from "../../../api/queries";
import { href, pathTo } from "../../../app/router";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { exactTime } from "../../../i18n/time";
import { joined } from "../../../ui/controls";
import { toneClass } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { messages } from "../messages";
import type { Run, Task } from "../run";
import styles from "./Details.module.css";
import { eventsOf, type RunEvent } from "./events";

interface EventsProps {
  run: Run;
  tasks: readonly Task[];
  onSelect: (name: string | null) => void;
}

/** The events of a run, oldest first. */
export function Events({ run, tasks, onSelect }: EventsProps) {
  const waits = useRead(
    // Waits change with the status and the waits of the run.
    ["waits", run.run_id, run.status, run.generation, run.open_waits?.length ?? 0],
    (signal) =>
      api.GET("/waits", {
        params: {
          query: { run_id: run.run_id, state: ["open", "answered", "expired", "cancelled"], limit: 200 },
        },
        signal,
      }),
    { enabled: run.open_waits !== undefined, keep: true },
  );
  return (
    <ol className={styles.events}>
      {eventsOf(run, tasks, waits.data?.items ?? []).map((event) => (
        <EventItem key={`${event.kind} ${event.at} ${event.task}`} event={event} onSelect={onSelect} />
      ))}
    </ol>
  );
}

function EventItem({ event, onSelect }: { event: RunEvent; onSelect: EventsProps["onSelect"] }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { kind, at, tone, task, who, text, waitId, number } = event;
  return (
    <li className={joined(styles.event, toneClass(tone))}>
      <span className={styles.dot} aria-hidden />
      <div className={styles.eventText}>
        <p>
          <strong>
            {kind === "restarted" ? t("event.restarted", { number: number ?? 2 }) : t(`event.${kind}`)}
          </strong>
          {task !== undefined && (
            <button type="button" className={styles.link} onClick={() => onSelect(task)}>
              <UserText text={task} />
            </button>
          )}
          {who && <span className={styles.soft}>{t("by", { who })}</span>}
        </p>
        {text && (
          <p className={styles.eventNote}>
            <UserText text={text} />
          </p>
        )}
        {waitId && <a href={href(pathTo("/waits/:id", { id: waitId }))}>{t("openWait")}</a>}
      </div>
      {at != null && (
        <time dateTime={new Date(at * 1000).toISOString()} title={exactTime(at, language)}>
          {new Date(at * 1000).toLocaleTimeString(language, { hour12: false })}
        </time>
      )}
    </li>
  );
}
