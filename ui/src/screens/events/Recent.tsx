/** The newest events of the month. */
import { History } from "lucide-react";
import { href, pathTo } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { secondsOf } from "../../schedules/schedule";
import type { Summary } from "../../triggers/eventApi";
import { messages as common } from "../../triggers/messages";
import { Outcome } from "../../triggers/Outcome";
import styles from "../../triggers/Triggers.module.css";
import { joined } from "../../ui/controls";
import { useRowKeys } from "../../ui/rowKeys";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { Panel } from "../run/Panel";
import events from "./Events.module.css";
import { messages } from "./messages";
import { useEventWords } from "./words";

type Event = Summary["recent"][number];

export function Recent({ summary: { recent } }: { summary: Summary }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const table = useRowKeys<HTMLTableElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <Panel
      title={t("recent")}
      icon={History}
      actions={<span className={styles.soft}>{t("recentNote", { count: recent.length })}</span>}
    >
      <table ref={table} className={joined(styles.table, events.recent)}>
        <thead>
          <tr>
            <th scope="col">{t("status")}</th>
            <th scope="col">{t("when")}</th>
            <th scope="col">{t("template")}</th>
            <th scope="col">{t("source")}</th>
            <th scope="col">{t("key")}</th>
            <th scope="col">{t("reason")}</th>
            <th scope="col">{c("run")}</th>
          </tr>
        </thead>
        <tbody>
          {recent.map((event, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no id, and two may be equal.
            <Row key={`${event.at} ${at}`} event={event} />
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function Row({ event }: { event: Event }) {
  const t = useMessages(messages);
  const { status } = useEventWords();
  // Without a name, no template of this id was found.
  const isKnown = event.template_id !== null && event.template_name !== null;
  const name = event.template_name ?? event.template_id ?? event.event_name;
  return (
    <tr data-event={event.status}>
      <td>
        <Outcome outcome={event.status} label={status(event.status)} />
      </td>
      <td>
        <Ago at={secondsOf(event.at)} />
      </td>
      <td>
        {isKnown ? (
          <a href={href(pathTo("/templates/:id", { id: event.template_id ?? "" }))}>
            <UserText text={name ?? ""} />
          </a>
        ) : (
          name && <UserText text={name} />
        )}
      </td>
      <td className={events.source} data-head={t("source")}>
        {event.source && <UserText text={event.source} />}
      </td>
      <td data-head={t("key")}>
        {event.idempotency_key && (
          <code>
            <UserText text={event.idempotency_key} />
          </code>
        )}
      </td>
      <td>
        <Why event={event} />
      </td>
      <td>
        {event.run_id && (
          <a
            className="mono"
            data-row
            href={href(pathTo("/runs/:id", { id: event.run_id }))}
            title={event.run_id}
          >
            {event.run_id.slice(0, 8)}
          </a>
        )}
      </td>
    </tr>
  );
}

function Why({ event }: { event: Event }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { reason, advice } = useEventWords();
  if (!event.reason_class && !event.reason) return null;
  // The gateway says it in English: in Japanese its meaning comes first, and what exactly below it.
  const isShown = event.reason && (language === "en" || !event.reason_class);
  const title = event.reason_code;
  return (
    <>
      <span title={title ? visible(title) : undefined}>
        {isShown && event.reason ? <UserText text={event.reason} /> : reason(event.reason_class ?? "")}
      </span>{" "}
      {!isShown && event.reason && (
        <span className={styles.soft}>
          <UserText text={event.reason} />
        </span>
      )}{" "}
      <span className={styles.soft}>
        {event.retry_advice && advice(event.retry_advice)}
        {event.count > 1 && ` · ${t("times", { count: event.count })}`}
      </span>
    </>
  );
}
