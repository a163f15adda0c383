/** The schedules, with their next and last run. */
import { CalendarClock, Plus } from "lucide-react";
import { useRead } from "../../api/queries";
import { href, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import type { ScheduleItem } from "../../schedules/schedule";
import { readSchedules } from "../../schedules/scheduleApi";
import { CommandLine } from "../../ui/CommandLine";
import { ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { FilterChips, FilterRow, FilterSelect, searchTyped, wordChips } from "../../ui/filters";
import { Page } from "../../ui/Page";
import { Pagination } from "../../ui/Pagination";
import { useRowKeys } from "../../ui/rowKeys";
import { SearchField } from "../../ui/SearchField";
import { useServedTags } from "../submit/suggestions";
import { apiQuery, isFiltered, NO_FILTERS, parseTyped, STATES, WORDS } from "./filters";
import { messages } from "./messages";
import styles from "./ScheduleList.module.css";
import { ScheduleRow } from "./ScheduleRow";

const EVERY_MS = 3_000;
const CREATE =
  'pyoco-client schedules create nightly --flow-name etl --cron "0 2 * * *" --timezone Asia/Tokyo';
const APPLY = "pyoco-client schedules apply -f schedules.yaml";

export default function SchedulesScreen() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const asked = apiQuery(query);
  const { data, error, isPending, refetch } = useRead(
    ["schedules", asked.toString()],
    (signal) => readSchedules(asked, signal),
    { keep: true, every: EVERY_MS },
  );
  const items = data?.items ?? [];
  const isLater = query.has("cursor");
  const filtered = isFiltered(query);
  return (
    <Page
      title={t("title")}
      note={data && data.total > 0 && t("count", { count: data.total })}
      actions={
        <ButtonLink kind="primary" href={href("/new-schedule")}>
          <Plus size={14} aria-hidden />
          {t("create")}
        </ButtonLink>
      }
    >
      {(filtered || items.length > 0) && <Filters />}
      {error && (
        <div className={styles.problem}>
          <ProblemBox problem={error} onRetry={() => void refetch()} />
        </div>
      )}
      {isPending && <Loading />}
      {items.length > 0 && <ScheduleList items={items} />}
      {data && items.length === 0 && !error && <Nothing filtered={filtered || isLater} />}
      <Pagination next={data?.next_cursor} />
    </Page>
  );
}

function Filters() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const chips = wordChips(query, [...WORDS, "q"] as const, (name) => t(`word.${name}`));
  return (
    <FilterRow>
      <SearchField
        label={t("search")}
        placeholder={t("searchPlaceholder")}
        value={query.get("q") ?? ""}
        onSearch={searchTyped(parseTyped, change)}
      />
      <FilterSelect
        name="state"
        label={t("stateFilter")}
        any={t("state.any")}
        options={STATES}
        text={(state) => t(`state.${state}`)}
      />
      {isFiltered(query) && <FilterChips chips={chips} none={NO_FILTERS} />}
    </FilterRow>
  );
}

function ScheduleList({ items }: { items: readonly ScheduleItem[] }) {
  const t = useMessages(messages);
  const { isUnserved } = useServedTags();
  const list = useRowKeys<HTMLUListElement>({ next: t("keyNext"), previous: t("keyPrevious") });
  return (
    <ul ref={list} className={styles.list} aria-label={t("list")}>
      {items.map((item) => (
        <ScheduleRow
          key={`${item.tenant_id ?? ""} ${item.schedule_id}`}
          item={item}
          isUnserved={isUnserved(item.tag)}
        />
      ))}
    </ul>
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
    <EmptyState
      icon={CalendarClock}
      title={t("emptyTitle")}
      actions={
        <ButtonLink kind="primary" href={href("/new-schedule")}>
          {t("create")}
        </ButtonLink>
      }
    >
      <p>{t("emptyText")}</p>
      <CommandLine text={CREATE} />
      <p>{t("emptyFile")}</p>
      <CommandLine text={APPLY} />
    </EmptyState>
  );
}
