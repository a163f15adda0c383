/** The hooks: what each delivery starts. */
import { Plus, SearchX, Webhook } from "lucide-react";
import { useMay } from "../../api/access";
import { useRead } from "../../api/queries";
import { href, type QueryPatch, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { type Hook, readHooks } from "../../triggers/hookApi";
import { KINDS, useHookWords } from "../../triggers/kinds";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { hookHref, hookRef } from "../../triggers/triggerRef";
import { CommandLine } from "../../ui/CommandLine";
import { Button, ButtonLink, Select } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { FilterChips, FilterRow } from "../../ui/filters";
import { Page } from "../../ui/Page";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { Tags } from "../../ui/Tags";
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
  const [query, change] = useQueryState();
  const asked = Object.fromEntries(
    ["q", "kind", "flow", "cursor"].flatMap((name) => {
      const value = query.get(name);
      return value ? [[name, value]] : [];
    }),
  );
  const { data, error, isPending, refetch } = useRead(
    ["hooks", JSON.stringify(asked)],
    (signal) => readHooks({ ...asked, limit: PAGE }, signal),
    { keep: true, every: EVERY_MS },
  );
  const items = data?.items ?? [];
  const further = data?.next_cursor ?? null;
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
      {(query.has("cursor") || further !== null) && (
        <nav className={styles.pages} aria-label={t("pages")}>
          <Button disabled={!query.has("cursor")} onClick={() => change({ cursor: null })}>
            {t("first")}
          </Button>
          <Button disabled={further === null} onClick={() => change({ cursor: further })}>
            {t("further")}
          </Button>
        </nav>
      )}
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
  const chips = WORDS.filter((name) => query.get(name)).map((name) => ({
    key: name,
    name: t(`word.${name}`),
    value: query.get(name) ?? "",
    without: { [name]: null, cursor: null },
  }));
  return (
    <FilterRow>
      <SearchField
        label={t("search")}
        placeholder={t("searchPlaceholder")}
        value={query.get("q") ?? ""}
        onSearch={(text) => {
          change({ q: text.trim() || null, cursor: null });
          return text.trim();
        }}
      />
      <Select
        aria-label={t("kindFilter")}
        value={query.get("kind") ?? ""}
        onChange={({ target }) => change({ kind: target.value || null, cursor: null })}
      >
        <option value="">{t("anyKind")}</option>
        {KINDS.map((kind) => (
          <option key={kind} value={kind}>
            {words(kind)}
          </option>
        ))}
      </Select>
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
    <div className={styles.list}>
      <table ref={table} className={styles.table} aria-label={t("list")}>
        <thead>
          <tr>
            <th scope="col">{t("hook")}</th>
            <th scope="col">{t("kindFilter")}</th>
            <th scope="col">{c("flow")}</th>
            <th scope="col">{c("tag")}</th>
            <th scope="col">{c("note")}</th>
            <th scope="col">{c("changed")}</th>
          </tr>
        </thead>
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
      <EmptyState
        icon={SearchX}
        title={t("nothingTitle")}
        actions={<Button onClick={() => change(NO_FILTERS)}>{t("nothingClear")}</Button>}
      >
        {t("nothingText")}
      </EmptyState>
    );
  return (
    <EmptyState icon={Webhook} title={t("emptyTitle")} actions={<Create />}>
      <p>{t("emptyText")}</p>
      <CommandLine text={CREATE} />
    </EmptyState>
  );
}
