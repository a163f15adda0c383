/** The list of runs: live, filtered by the URL, with infinite scrolling. */
import { Activity, Columns3, Layers, Play } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { useAtEnd, useRestored, useScrollTo } from "../../app/restoredState";
import { href, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { useNarrow } from "../../lib/media";
import { Button, ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { LostRuns } from "../../ui/lostRuns";
import { Menu, MenuCheck, MenuItem } from "../../ui/menus";
import { Page } from "../../ui/Page";
import { BulkDialog } from "./BulkDialog";
import { COLUMN_NAMES } from "./columnNames";
import { refreshCounts, useCounts } from "./counts";
import { FilterBar, NO_FILTERS } from "./FilterBar";
import { apiFilter, orderingOf } from "./filters";
import { rememberList } from "./listedRuns";
import { messages } from "./messages";
import styles from "./Runs.module.css";
import { RunsTable } from "./RunsTable";
import type { RunList } from "./runList";
import { SelectionBar } from "./SelectionBar";
import type { BulkAction } from "./touched";
import { useColumns } from "./useColumns";
import { useLiveRuns } from "./useLiveRuns";
import { useSelection } from "./useSelection";
import { ViewBar } from "./views/ViewBar";

export { begin } from "./pages";

/** A relative time changes with every evaluation, but is the same filter. */
const SAME_MOMENT = 0;

/** List and scroll position are restored together. */
interface Restored {
  list: RunList;
  scrolled: number;
}

export default function RunsScreen() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const filter = useMemo(() => apiFilter(query, Date.now() / 1000).toString(), [query]);
  const narrow = useNarrow();
  const scroller = useRef<HTMLDivElement>(null);
  const { found: restored, keep } = useRestored<Restored>("runs");
  const [frozen, setFrozen] = useState((restored?.scrolled ?? 0) > 0);
  const [bulk, setBulk] = useState<BulkAction | null>(null);
  const selection = useSelection(apiFilter(query, SAME_MOMENT).toString());
  const runs = useLiveRuns({
    filter,
    ordering: orderingOf(query),
    frozen,
    restored: restored?.list,
    onChanged: refreshCounts,
  });
  useScrollTo(restored?.scrolled, () => scroller.current);
  useAtEnd(() => {
    if (!runs.settled) return;
    keep({ list: runs.list, scrolled: scroller.current?.scrollTop ?? 0 });
    rememberList(query, runs.list.order);
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
          <ButtonLink kind="primary" href={href("/submit", { flow: query.get("flow") })}>
            <Play size={14} aria-hidden />
            {t("submit")}
          </ButtonLink>
        </>
      }
    >
      <ViewBar />
      <FilterBar counts={counts} rows={runs.list.rows} />
      {runs.problem && (
        <div className={styles.problem}>
          <ProblemBox problem={runs.problem} onRetry={runs.reload} />
        </div>
      )}
      <div className={styles.body}>
        <LostRuns runs={runs.list.rows.values()}>
          <RunsTable
            list={runs.list}
            scroller={scroller}
            selection={selection}
            onFreeze={setFrozen}
            onNearEnd={runs.loadMore}
            empty={runs.ready ? <NothingThere filtered={filter !== ""} /> : !runs.problem && <Loading />}
          />
        </LostRuns>
        <SelectionBar
          selection={selection}
          list={runs.list}
          matching={total?.exact ? total.count : null}
          onBulk={setBulk}
        />
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
  const [shown, toggle] = useColumns();
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
      {COLUMN_NAMES.map((name) => (
        <MenuCheck key={name} checked={shown.includes(name)} onChange={() => toggle(name)}>
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
      <NothingMatches title={t("nothingTitle")} onClear={() => change(NO_FILTERS)}>
        {t("nothingText")}
      </NothingMatches>
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
