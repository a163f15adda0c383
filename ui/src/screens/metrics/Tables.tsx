/** Latencies by flow, queues by tag, and requests by route. */
import type { ReactNode } from "react";
import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { duration } from "../../i18n/time";
import { Card } from "../../ui/Page";
import { UserText } from "../../ui/UserText";
import type { Scrape } from "./exposition";
import { flowRows, type QueueRow, type RouteRow } from "./figures";
import styles from "./Metrics.module.css";
import { messages } from "./messages";
import table from "./ScrollTable.module.css";

const SHOWN = 15;
// Where the gateway counts the flows beyond its limit.
const OTHER_FLOWS = "_other";

interface TableProps {
  title: string;
  note?: string;
  /** What has to be known about its figures. */
  footer?: string;
  columns: string[];
  empty: string;
  rows: { key: string; name: ReactNode; cells: Cell[] }[];
}

/** A text, or a count that is bad unless it is zero. */
type Cell = string | { failures: number };

const isBad = (cell: Cell): boolean => typeof cell !== "string" && cell.failures > 0;

function Table({ title, note, footer, columns, empty, rows }: TableProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  return (
    <Card title={title} actions={note && <span className={styles.soft}>{note}</span>} className={table.list}>
      {rows.length === 0 ? (
        <p className={table.nothing}>{empty}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard.
        <div className={table.scroll} tabIndex={0} role="region" aria-label={title}>
          <table className={table.table}>
            <thead>
              <tr>
                {columns.map((column, at) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
                  <th key={at} scope="col">
                    {column}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, SHOWN).map(({ key, name, cells }) => (
                <tr key={key}>
                  <th scope="row">{name}</th>
                  {cells.map((cell, at) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
                    <td key={at} className={isBad(cell) ? styles.bad : undefined}>
                      {typeof cell === "string" ? cell : cell.failures.toLocaleString(language)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {rows.length > SHOWN && <p className={table.nothing}>{t("more", { count: rows.length - SHOWN })}</p>}
      {footer && rows.length > 0 && <p className={table.footer}>{footer}</p>}
    </Card>
  );
}

/** Numbers and durations in the current language. */
function useFormats() {
  const t = useMessages(messages);
  const language = useLanguage();
  return {
    count: (value: number) => value.toLocaleString(language),
    time: (seconds: number | null) => (seconds === null ? t("none") : duration(seconds, language)),
  };
}

export function FlowTable({ scrape }: { scrape: Scrape }) {
  const t = useMessages(messages);
  const { count, time } = useFormats();
  return (
    <Table
      title={t("flows")}
      note={t("sinceStart")}
      footer={t("estimated")}
      empty={t("noFlows")}
      columns={[
        t("flow"),
        t("ended"),
        t("failed"),
        t("startP50"),
        t("startP95"),
        t("durationP50"),
        t("durationP95"),
      ]}
      rows={flowRows(scrape).map(({ flow, ended, failed, start, duration: took }) => ({
        key: flow,
        name:
          flow === OTHER_FLOWS ? (
            t("otherFlows")
          ) : (
            <a href={href("/runs", { flow })}>
              <UserText text={flow} />
            </a>
          ),
        cells: [
          count(ended),
          { failures: failed },
          time(start.p50),
          time(start.p95),
          time(took.p50),
          time(took.p95),
        ],
      }))}
    />
  );
}

export function QueueTable({ rows }: { rows: readonly QueueRow[] }) {
  const t = useMessages(messages);
  const { count, time } = useFormats();
  return (
    <Table
      title={t("queues")}
      footer={t("withCancelled")}
      empty={t("noQueues")}
      columns={[t("tag"), t("waiting"), t("oldestShort"), t("inWork"), t("redelivered")]}
      rows={rows.map(({ tag, waiting, oldestSec, inWork, redelivered }) => ({
        key: tag,
        name: (
          <a href={href("/runs", { tag })}>
            <UserText text={tag} />
          </a>
        ),
        cells: [count(waiting), waiting > 0 ? time(oldestSec) : t("none"), count(inWork), count(redelivered)],
      }))}
    />
  );
}

/** Only the operator has these. */
export function RouteTable({ rows }: { rows: readonly RouteRow[] }) {
  const t = useMessages(messages);
  const { count, time } = useFormats();
  if (rows.length === 0) return null;
  return (
    <Table
      title={t("routes")}
      note={t("sinceStart")}
      empty={t("none")}
      columns={[t("route"), t("count"), t("rejected"), t("serverErrors"), t("p50"), t("p95")]}
      rows={rows.map(({ route, requests, rejected, failed, latency }) => ({
        key: route,
        name: <code>{route}</code>,
        cells: [count(requests), count(rejected), { failures: failed }, time(latency.p50), time(latency.p95)],
      }))}
    />
  );
}
