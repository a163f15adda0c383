/** The alerts: what each watches, and whether it fires. */

import { BellRing, Plus } from "lucide-react";
import { useMay } from "../../api/access";
import { useRead } from "../../api/queries";
import { href, picked, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { CommandLine } from "../../ui/CommandLine";
import { ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { FilterRow, searchText, searchTyped } from "../../ui/filters";
import { Page } from "../../ui/Page";
import { Pagination } from "../../ui/Pagination";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { TableHead } from "../../ui/TableHead";
import { Tags } from "../../ui/Tags";
import base from "../../ui/table.module.css";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { type Alert, alertHref, alertRef, readAlerts } from "./alertApi";
import { messages } from "./messages";
import { AlertState, Watched } from "./parts";

const EVERY_MS = 5_000;
const PAGE = "100";
const APPLY = "pyoco-client alerts apply -f alerts.yaml";

export default function AlertsScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const asked = picked(query, ["q", "cursor"]);
  const { data, error, isPending, refetch } = useRead(
    ["alerts", JSON.stringify(asked)],
    (signal) => readAlerts({ ...asked, limit: PAGE }, signal),
    { keep: true, every: EVERY_MS },
  );
  const items = data?.items ?? [];
  const isFiltered = Object.keys(asked).length > 0;
  return (
    <Page title={t("title")} note={data && data.total > 0 && <Count {...data} />} actions={<Create />}>
      {(isFiltered || items.length > 0) && (
        <FilterRow>
          <SearchField
            label={t("search")}
            placeholder={t("searchPlaceholder")}
            value={query.get("q") ?? ""}
            onSearch={searchTyped(searchText, change)}
          />
        </FilterRow>
      )}
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      {items.length > 0 && <AlertTable items={items} />}
      {data && items.length === 0 && !error && <Nothing filtered={isFiltered} />}
      <Pagination next={data?.next_cursor} />
    </Page>
  );
}

function Count({ total, firing }: { total: number; firing: number }) {
  const t = useMessages(messages);
  const count = t("count", { count: total });
  return firing > 0 ? `${count} · ${t("firingCount", { count: firing })}` : count;
}

function Create() {
  const t = useMessages(messages);
  const c = useMessages(common);
  if (!useMay("PUT /alerts/{alert_id}")) return <span className={styles.soft}>{c("needsScope")}</span>;
  return (
    <ButtonLink kind="primary" href={href("/new-alert")}>
      <Plus size={14} aria-hidden />
      {t("create")}
    </ButtonLink>
  );
}

function AlertTable({ items }: { items: readonly Alert[] }) {
  const t = useMessages(messages);
  const table = useRowKeys<HTMLTableElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <div className={base.frame}>
      <table ref={table} className={styles.table} aria-label={t("list")}>
        <TableHead
          columns={[t("alert"), t("state"), t("condition"), t("watches"), t("channels"), t("lastFired")]}
        />
        <tbody>
          {items.map((alert) => (
            <tr key={`${alert.tenant_id ?? ""} ${alert.alert_id}`} data-alert={alert.alert_id}>
              <th scope="row">
                <a href={alertHref(alertRef(alert))} data-row>
                  <UserText text={alert.alert_id} />
                </a>{" "}
                {alert.tenant_id && <Tags tags={[alert.tenant_id]} />}
                {alert.note && (
                  <p className={styles.soft}>
                    <UserText text={alert.note} />
                  </p>
                )}
              </th>
              <td>
                <AlertState alert={alert} />
              </td>
              <td data-head={t("condition")}>{t(`condition.${alert.rule.condition}`)}</td>
              <td data-head={t("watches")}>
                <Watched alert={alert} />
              </td>
              <td data-head={t("channels")}>
                <UserText text={alert.channels.map(({ name }) => name).join(", ")} />
              </td>
              <td data-head={t("lastFired")}>
                {alert.last ? (
                  <>
                    <Ago at={alert.last.fired_at} />
                    <p className={styles.soft}>
                      <UserText text={alert.last.text} />
                    </p>
                  </>
                ) : (
                  t("never")
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  if (filtered)
    return (
      <NothingMatches
        title={t("nothingTitle")}
        clear={t("nothingClear")}
        onClear={() => change({ q: null, cursor: null })}
      >
        {t("nothingText")}
      </NothingMatches>
    );
  return (
    <EmptyState icon={BellRing} title={t("emptyTitle")} actions={<Create />}>
      <p>{t("emptyText")}</p>
      <CommandLine text={APPLY} />
    </EmptyState>
  );
}
