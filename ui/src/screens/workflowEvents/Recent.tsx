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
import { TableHead } from "../../ui/TableHead";
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
        <TableHead
          columns={[t("status"), t("when"), t("template"), t("source"), t("key"), t("reason"), c("run")]}
        />
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
  // The gateway gives the details in English only.
  const isNamed = event.reason_class && (language !== "en" || !event.reason);
  const notes = [
    event.retry_advice && advice(event.retry_advice),
    event.count > 1 && t("times", { count: event.count }),
  ].filter(Boolean);
  return (
    <div title={event.reason_code ? visible(event.reason_code) : undefined}>
      {isNamed && <p>{reason(event.reason_class ?? "")}</p>}
      {event.reason && (
        <p className={isNamed ? styles.soft : undefined}>
          <UserText text={event.reason} />
        </p>
      )}
      {notes.length > 0 && <p className={styles.soft}>{notes.join(" · ")}</p>}
    </div>
  );
}
