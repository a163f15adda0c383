/** Flows and tags with their figures, sorted as one wants: the answer to "which flow got slower". */
import { ChevronDown } from "lucide-react";
import type { ReactNode } from "react";
import { href, pathTo, useQueryState } from "../../../app/router";
import { countOf } from "../../../charts/ends";
import { endedBetween, type OnlyRuns } from "../../../charts/runLinks";
import { Sparkline } from "../../../flows/Bars";
import { useMessages } from "../../../i18n/messages";
import { joined } from "../../../ui/controls";
import { Card } from "../../../ui/Page";
import { UserText } from "../../../ui/UserText";
import base from "../ScrollTable.module.css";
import { changeOf, type Figures, type Order, type Statistics, sortedBy, verdictOf } from "./compare";
import { useFormats } from "./formats";
import { messages } from "./messages";
import styles from "./Runs.module.css";

interface TablesProps {
  statistics: Statistics;
  only: OnlyRuns;
}

interface Row {
  name: string;
  current: Figures;
  previous: Figures;
  sparkline: Statistics["flows"][number]["sparkline"];
  /** Which runs it has. */
  only: OnlyRuns;
  slots?: Statistics["slots"];
}

export function ComparisonTables({ statistics, only }: TablesProps) {
  const t = useMessages(messages);
  const { flows, flow_count: flowCount, tags, tag_count: tagCount } = statistics;
  return (
    <>
      <ComparisonTable
        title={t("flows")}
        first={t("flow")}
        total={flowCount}
        statistics={statistics}
        rows={flows.map((flow) => ({
          ...flow,
          name: flow.flow_name,
          only: { ...only, flow: flow.flow_name },
        }))}
        name={({ name }) => (
          <a href={href(pathTo("/flows/:name", { name }))}>
            <UserText text={name} />
          </a>
        )}
      />
      <ComparisonTable
        title={t("tags")}
        first={t("tag")}
        total={tagCount}
        statistics={statistics}
        rows={tags.map((tag) => ({ ...tag, name: tag.tag, only: { ...only, tag: tag.tag } }))}
        name={({ name }) => <UserText text={name} />}
      />
    </>
  );
}

const COLUMNS = ["runs", "success", "p50", "p95", "change", "queue"] as const;
const ORDERS: readonly Order[] = ["name", ...COLUMNS];

interface TableProps {
  title: string;
  /** The heading of the first column. */
  first: string;
  /** How many there are, with those that the server left out. */
  total: number;
  statistics: Statistics;
  rows: readonly Row[];
  name: (row: Row) => ReactNode;
}

function ComparisonTable({ title, first, total, statistics, rows, name }: TableProps) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const order = ORDERS.find((each) => each === query.get("sort")) ?? "runs";
  const hasSlots = rows.some(({ slots }) => slots);
  if (rows.length === 0) return null;
  const heading = (column: Order, text: string) => (
    <th
      key={column}
      scope="col"
      aria-sort={
        order === column
          ? column === "name" || column === "success"
            ? "ascending"
            : "descending"
          : undefined
      }
    >
      <button
        type="button"
        onClick={() => change({ sort: column === "runs" ? null : column }, { replace: true })}
      >
        {text}
        {order === column && <ChevronDown size={12} aria-hidden />}
      </button>
    </th>
  );
  return (
    <Card title={title} className={base.list}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard. */}
      <div className={base.scroll} tabIndex={0} role="region" aria-label={title}>
        <table className={joined(base.table, styles.table)}>
          <thead>
            <tr>
              {heading("name", first)}
              {COLUMNS.map((column) => heading(column, t(`column.${column}`)))}
              {hasSlots && (
                <th scope="col" title={t("slots")}>
                  {t("column.slots")}
                </th>
              )}
              <th scope="col">{t("overTime")}</th>
            </tr>
          </thead>
          <tbody>
            {sortedBy(rows, order).map((row) => (
              <tr key={row.name}>
                <th scope="row">{name(row)}</th>
                <Cells row={row} statistics={statistics} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {total > rows.length && <p className={base.nothing}>{t("more", { count: total - rows.length })}</p>}
    </Card>
  );
}

function Cells({ row, statistics }: { row: Row; statistics: Statistics }) {
  const t = useMessages(messages);
  const { number, percent, time, change } = useFormats();
  const { since, at, bucket_sec: step } = statistics;
  const { current, previous, only, slots, sparkline } = row;
  const slowed = changeOf(current.duration_ms.p95, previous.duration_ms.p95);
  const verdict = slowed === null ? null : verdictOf(slowed);
  const until = Math.ceil(at);
  return (
    <>
      <td>
        <a href={endedBetween(since, until, undefined, only)}>{number(countOf(current))}</a>{" "}
        <span className={styles.soft}>{t("was", { value: number(countOf(previous)) })}</span>
      </td>
      <td>
        {current.failed > 0 ? (
          <a className={styles.bad} href={endedBetween(since, until, "failed", only)}>
            {percent(current.success_rate)}
          </a>
        ) : (
          percent(current.success_rate)
        )}
      </td>
      <td>{time(current.duration_ms.p50)}</td>
      <td>{time(current.duration_ms.p95)}</td>
      <td data-verdict={verdict ?? undefined}>
        {slowed !== null && verdict !== null && (
          <strong className={joined(verdict === "slower" && styles.bad, verdict === "faster" && styles.good)}>
            {verdict === "same" ? t("same") : change(slowed)}
          </strong>
        )}{" "}
        {previous.duration_ms.p95 !== null && (
          <span className={styles.soft}>{t("was", { value: time(previous.duration_ms.p95) })}</span>
        )}
      </td>
      <td>{time(current.queue_ms.p95)}</td>
      {slots && <td>{t("slotsOf", { busy: slots.slots_busy, slots: slots.slots })}</td>}
      <td className={styles.sparkline}>
        <Sparkline
          statistics={{ since, bucket_sec: step, sparkline }}
          label={t("endedOf", { name: row.name })}
        />
      </td>
    </>
  );
}
