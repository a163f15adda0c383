/** Uploads and deletions, newest first. */

import { History as HistoryIcon, X } from "lucide-react";
import { api, type Schemas } from "../../api/client";
import { useRead } from "../../api/queries";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { Button, joined, Select } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { FilterRow } from "../../ui/filters";
import { TableHead } from "../../ui/TableHead";
import { Tags } from "../../ui/Tags";
import base from "../../ui/table.module.css";
import { Ago } from "../../ui/time";
import { messages } from "./messages";
import styles from "./Wheels.module.css";

const EVERY_MS = 5_000;
const MOST = 200;

export function History() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const given = query.get("action");
  const action = given === "upload" || given === "delete" ? given : undefined;
  const wheel_name = query.get("wheel") ?? undefined;
  const { data, error, isPending, refetch } = useRead(
    ["wheels", "history", action, wheel_name],
    (signal) =>
      api.GET("/wheels/history", { params: { query: { limit: MOST, action, wheel_name } }, signal }),
    { every: EVERY_MS, keep: true },
  );
  return (
    <>
      <FilterRow>
        <Select
          aria-label={t("whichAction")}
          value={action ?? ""}
          onChange={({ target }) => change({ action: target.value })}
        >
          <option value="">{t("anyAction")}</option>
          <option value="upload">{t("onlyUploads")}</option>
          <option value="delete">{t("onlyDeletions")}</option>
        </Select>
        {wheel_name && (
          <Button className={styles.only} title={t("showAll")} onClick={() => change({ wheel: null })}>
            <span>{t("onlyWheel", { wheel: wheel_name })}</span>
            <X size={13} aria-hidden />
            <span className="hidden-visually">{t("showAll")}</span>
          </Button>
        )}
      </FilterRow>
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      {data?.length === 0 && (
        <EmptyState icon={HistoryIcon} title={t("noHistoryTitle")}>
          {t("noHistoryText")}
        </EmptyState>
      )}
      {data && data.length > 0 && <Events events={data} />}
      {data?.length === MOST && <p className={styles.faint}>{t("newestOnly", { count: MOST })}</p>}
    </>
  );
}

function Events({ events }: { events: readonly Schemas["WheelEvent"][] }) {
  const t = useMessages(messages);
  return (
    <div className={base.frame}>
      <table className={joined(base.table, styles.table, styles.history)}>
        <TableHead columns={[t("when"), t("what"), t("wheel"), t("workers"), t("who"), t("from")]} />
        <tbody>
          {events.map((event) => (
            <EventRow key={event.event_id} event={event} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function EventRow({ event }: { event: Schemas["WheelEvent"] }) {
  const t = useMessages(messages);
  const { actor, source, action } = event;
  const who = [actor.tenant_id, actor.api_key_id].filter(Boolean).join(" / ");
  const proxied = source.x_forwarded_for ?? source.x_real_ip;
  return (
    <tr>
      <td>
        <Ago at={event.occurred_at} />
      </td>
      <td className={action === "delete" ? styles.gone : undefined}>{t(`action.${action}`)}</td>
      <td>
        <code className={styles.fileName}>{event.wheel_name}</code>
        <span className={styles.under}>
          {event.size_bytes !== null && fileSize(event.size_bytes)}
          {event.sha256_hex && <code title={event.sha256_hex}>{event.sha256_hex.slice(0, 12)}</code>}
          {event.replace === false && <span>{t("notReplacing")}</span>}
        </span>
      </td>
      <td>{event.tags.length > 0 ? <Tags tags={event.tags} /> : t("forAll")}</td>
      <td>{who || <span className={styles.faint}>{t("nobody")}</span>}</td>
      <td title={source.user_agent ?? undefined}>
        {source.remote_addr}
        {proxied && <span className={styles.under}>{proxied}</span>}
      </td>
    </tr>
  );
}
