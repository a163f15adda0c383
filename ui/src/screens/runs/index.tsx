/** The list of runs: live, filtered by the URL, with infinite scrolling. */
import { Activity, Columns3, Layers, SearchX } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { useAtEnd, useRestored, useScrollTo } from "../../app/restoredState";
import { href, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { useNarrow } from "../../lib/media";
import { useStore } from "../../lib/store";
import { Button, ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { Menu, MenuCheck, MenuItem } from "../../ui/menus";
import { Page } from "../../ui/Page";
import { BulkDialog } from "./BulkDialog";
import { COLUMNS, shownColumns, toggleColumn } from "./columns";
import { refreshCounts, useCounts } from "./counts";
import { FilterBar, NO_FILTERS } from "./FilterBar";
import { apiFilter, orderingOf } from "./filters";
import { messages } from "./messages";
import styles from "./Runs.module.css";
import { RunsTable } from "./RunsTable";
import type { RunList } from "./runList";
import { SelectionBar } from "./SelectionBar";
import type { BulkAction } from "./touched";
import { useLiveRuns } from "./useLiveRuns";
import { useSelection } from "./useSelection";
import { ViewsMenu } from "./ViewsMenu";

export { begin } from "./pages";

/** A relative time changes with every evaluation, but is the same filter. */
const SAME_MOMENT = 0;

/** List and scroll position are restored together. */
interface Left {
  list: RunList;
  scrolled: number;
}

export default function RunsScreen() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const filter = useMemo(() => apiFilter(query, Date.now() / 1000).toString(), [query]);
  const narrow = useNarrow();
  const scroller = useRef<HTMLDivElement>(null);
  const { found: left, keep } = useRestored<Left>("runs");
  const [still, setStill] = useState((left?.scrolled ?? 0) > 0);
  const [bulk, setBulk] = useState<BulkAction | null>(null);
  const [selected, toggle, clear] = useSelection(apiFilter(query, SAME_MOMENT).toString());
  const runs = useLiveRuns({
    filter,
    ordering: orderingOf(query),
    still,
    left: left?.list,
    onChanged: refreshCounts,
  });
  useScrollTo(left?.scrolled, () => scroller.current);
  useAtEnd(() => {
    if (runs.settled) keep({ list: runs.list, scrolled: scroller.current?.scrollTop ?? 0 });
  });
  const counts = useCounts(filter, runs.ready);
  const total = counts?.matching;
  return (
    <Page
      full
      title={t("title")}
      note={
        total && (total.exact ? t("matching", { count: total.count }) : t("moreThan", { count: total.count }))
      }
      actions={
        <>
          <ViewsMenu />
          {!narrow && <ColumnsMenu />}
          <Menu
            align="end"
            trigger={
              <Button>
                <Layers size={14} aria-hidden />
                {t("bulk")}
              </Button>
            }
          >
            <MenuItem onSelect={() => setBulk("rerun")}>{t("bulkRerun")}</MenuItem>
            <MenuItem danger onSelect={() => setBulk("cancel")}>
              {t("bulkCancel")}
            </MenuItem>
          </Menu>
        </>
      }
    >
      <FilterBar counts={counts} />
      {runs.problem && (
        <div className={styles.problem}>
          <ProblemBox problem={runs.problem} onRetry={runs.reload} />
        </div>
      )}
      <div className={styles.body}>
        <RunsTable
          list={runs.list}
          scroller={scroller}
          selected={selected}
          onToggle={toggle}
          onStill={setStill}
          onNearEnd={runs.loadMore}
          empty={runs.ready ? <NothingThere filtered={filter !== ""} /> : !runs.problem && <Loading />}
        />
        <SelectionBar selected={selected} rows={runs.list.rows} onClear={clear} />
      </div>
      <BulkDialog
        action={bulk}
        filter={filter}
        matching={total?.exact ? total.count : null}
        onClose={() => setBulk(null)}
      />
    </Page>
  );
}

function ColumnsMenu() {
  const t = useMessages(messages);
  const shown = useStore(shownColumns);
  return (
    <Menu
      align="end"
      trigger={
        <Button>
          <Columns3 size={14} aria-hidden />
          {t("columns")}
        </Button>
      }
    >
      {COLUMNS.map(({ name }) => (
        <MenuCheck key={name} checked={shown.includes(name)} onChange={() => toggleColumn(name)}>
          {t(`column.${name}`)}
        </MenuCheck>
      ))}
    </Menu>
  );
}

function NothingThere({ filtered }: { filtered: boolean }) {
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
    <EmptyState
      icon={Activity}
      title={t("emptyTitle")}
      actions={
        <ButtonLink kind="primary" href={href("/submit")}>
          {t("emptySubmit")}
        </ButtonLink>
      }
    >
      {t("emptyText")}
    </EmptyState>
  );
}
