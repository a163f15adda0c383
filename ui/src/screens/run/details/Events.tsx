import { href, pathTo } from "../../../app/router";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { exactTime } from "../../../i18n/time";
import { joined } from "../../../ui/controls";
import { toneClass } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { messages } from "../messages";
import type { Run, Task, Wait } from "../run";
import styles from "./Details.module.css";
import { eventsOf, type RunEvent } from "./events";

interface EventsProps {
  run: Run;
  tasks: readonly Task[];
  waits: readonly Wait[];
  onSelect: (name: string | null) => void;
}

/** What happened to a worker, which did not do it. */
const IS_OF_WORKER: ReadonlySet<string> = new Set(["workerLost", "handedBack"]);

/** The events of a run, oldest first. */
export function Events({ run, tasks, waits, onSelect }: EventsProps) {
  return (
    <ol className={styles.events}>
      {eventsOf(run, tasks, waits).map((event) => (
        <EventItem
          key={`${event.kind} ${event.at} ${event.task} ${event.waitId ?? event.topic ?? event.number ?? ""}`}
          event={event}
          onSelect={onSelect}
        />
      ))}
    </ol>
  );
}

function EventItem({ event, onSelect }: { event: RunEvent; onSelect: EventsProps["onSelect"] }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { kind, at, tone, task, who, text, waitId, number, topic, until } = event;
  return (
    <li className={joined(styles.event, toneClass(tone))}>
      <span className={styles.dot} aria-hidden />
      <div className={styles.eventText}>
        <p>
          <strong>
            {kind === "restarted" ? t("event.restarted", { number: number ?? 2 }) : t(`event.${kind}`)}
          </strong>
          {topic && (
            <code>
              <UserText text={topic} />
            </code>
          )}
          {until != null && <span>{exactTime(until, language)}</span>}
          {task !== undefined && (
            <button type="button" className={styles.link} onClick={() => onSelect(task)}>
              <UserText text={task} />
            </button>
          )}
          {who && <span className={styles.soft}>{IS_OF_WORKER.has(kind) ? who : t("by", { who })}</span>}
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
