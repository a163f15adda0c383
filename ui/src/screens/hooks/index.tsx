/** The hooks: what each delivery starts. */

import { Plus, Webhook } from "lucide-react";
import { useMay } from "../../api/access";
import { useRead } from "../../api/queries";
import { href, picked, type QueryPatch, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { type Hook, readHooks } from "../../triggers/hookApi";
import { KINDS, useHookWords } from "../../triggers/kinds";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { hookHref, hookRef } from "../../triggers/triggerRef";
import { CommandLine } from "../../ui/CommandLine";
import { ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { FilterChips, FilterRow, FilterSelect, searchText, searchTyped, wordChips } from "../../ui/filters";
import { Page } from "../../ui/Page";
import { Pagination } from "../../ui/Pagination";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { TableHead } from "../../ui/TableHead";
import { Tags } from "../../ui/Tags";
import base from "../../ui/table.module.css";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";

const EVERY_MS = 5_000;
const PAGE = "100";
const CREATE = "pyoco-client hooks create orders --kind github --flow-name import --map order=/order/id";
const NO_FILTERS: QueryPatch = { q: null, kind: null, flow: null, cursor: null };
const WORDS = ["flow", "q"] as const;

export default function HooksScreen() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const asked = picked(query, ["q", "kind", "flow", "cursor"]);
  const { data, error, isPending, refetch } = useRead(
    ["hooks", JSON.stringify(asked)],
    (signal) => readHooks({ ...asked, limit: PAGE }, signal),
    { keep: true, every: EVERY_MS },
  );
  const items = data?.items ?? [];
  const isFiltered = Object.keys(asked).length > 0;
  return (
    <Page
      title={t("title")}
      note={data && data.total > 0 && t("count", { count: data.total })}
      actions={<Create />}
    >
      {(isFiltered || items.length > 0) && <Filters />}
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      {items.length > 0 && <HookTable items={items} />}
      {data && items.length === 0 && !error && <Nothing filtered={isFiltered} />}
      <Pagination next={data?.next_cursor} />
    </Page>
  );
}

function Create() {
  const t = useMessages(messages);
  const c = useMessages(common);
  if (!useMay("POST /hooks")) return <span className={styles.soft}>{c("needsScope")}</span>;
  return (
    <ButtonLink kind="primary" href={href("/new-hook")}>
      <Plus size={14} aria-hidden />
      {t("create")}
    </ButtonLink>
  );
}

function Filters() {
  const t = useMessages(messages);
  const words = useHookWords();
  const [query, change] = useQueryState();
  const chips = wordChips(query, WORDS, (name) => t(`word.${name}`));
  return (
    <FilterRow>
      <SearchField
        label={t("search")}
        placeholder={t("searchPlaceholder")}
        value={query.get("q") ?? ""}
        onSearch={searchTyped(searchText, change)}
      />
      <FilterSelect name="kind" label={t("kindFilter")} any={t("anyKind")} options={KINDS} text={words} />
      {chips.length > 0 && <FilterChips chips={chips} none={NO_FILTERS} />}
    </FilterRow>
  );
}

function HookTable({ items }: { items: readonly Hook[] }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const words = useHookWords();
  const table = useRowKeys<HTMLTableElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <div className={base.frame}>
      <table ref={table} className={styles.table} aria-label={t("list")}>
        <TableHead columns={[t("hook"), t("kindFilter"), c("flow"), c("tag"), c("note"), c("changed")]} />
        <tbody>
          {items.map((hook) => (
            <tr key={`${hook.tenant_id ?? ""} ${hook.hook_id}`} data-hook={hook.hook_id}>
              <th scope="row">
                <a href={hookHref(hookRef(hook))} data-row>
                  <UserText text={hook.hook_id} />
                </a>{" "}
                {hook.tenant_id && <Tags tags={[hook.tenant_id]} />}
              </th>
              <td data-head={t("kindFilter")}>
                {words(hook.kind)}
                {hook.secrets.length > 1 && <p className={styles.soft}>{t("rotating")}</p>}
              </td>
              <td data-head={c("flow")}>
                <UserText text={hook.flow_name} /> {hook.workflow_yaml && <Tags tags={["flow.yaml"]} />}
              </td>
              <td data-head={c("tag")}>
                <UserText text={hook.tag} />
              </td>
              <td data-head={c("note")}>{hook.note && <UserText text={hook.note} />}</td>
              <td data-head={c("changed")}>
                <Ago at={hook.updated_at} />
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
      <NothingMatches title={t("nothingTitle")} onClear={() => change(NO_FILTERS)}>
        {t("nothingText")}
      </NothingMatches>
    );
  return (
    <EmptyState icon={Webhook} title={t("emptyTitle")} actions={<Create />}>
      <p>{t("emptyText")}</p>
      <CommandLine text={CREATE} />
    </EmptyState>
  );
}
