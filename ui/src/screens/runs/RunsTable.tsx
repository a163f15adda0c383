/** The rows. Only visible ones are rendered. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type CSSProperties, memo, type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { href, navigate, pathTo, useQueryState } from "../../app/router";
import { useShortcut } from "../../app/shortcuts";
import { useMessages } from "../../i18n/messages";
import { useNarrow } from "../../lib/media";
import { Button, joined } from "../../ui/controls";
import { stepped, useStepKeys } from "../../ui/stepKeys";
import type { ColumnName } from "./columnNames";
import { COLUMNS } from "./columns";
import { type Ordering, orderingOf, type Sort } from "./filters";
import { messages } from "./messages";
import { NarrowRow } from "./NarrowRow";
import { PeekLayer } from "./Peek";
import styles from "./Runs.module.css";
import { newCount, type Run, type RunList } from "./runList";
import { useColumns } from "./useColumns";
import type { Selection } from "./useSelection";

const ROW_PX = 35;
const NARROW_ROW_PX = 62;
// The next page is loaded when fewer rows than this remain.
const AHEAD = 60;

interface TableProps {
  list: RunList;
  /** The scroll container. */
  scroller: RefObject<HTMLDivElement | null>;
  selection: Selection;
  onFreeze: (frozen: boolean) => void;
  onNearEnd: () => void;
  /** Instead of rows. */
  empty: ReactNode;
}

export function RunsTable({ list, scroller, selection, onFreeze, onNearEnd, empty }: TableProps) {
  const t = useMessages(messages);
  const narrow = useNarrow();
  const [shown] = useColumns();
  const columns = COLUMNS.filter((each) => shown.includes(each.name));
  const rowPx = narrow ? NARROW_ROW_PX : ROW_PX;
  const rows = useVirtualizer({
    count: list.order.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    getItemKey: (index) => list.order[index] ?? index,
    overscan: 8,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows of another height are measured again.
  useEffect(() => rows.measure(), [rowPx]);
  const active = useActiveRow(list, rows.scrollToIndex, selection);
  const drawn = rows.getVirtualItems();
  const lastDrawn = drawn.at(-1)?.index ?? 0;
  useEffect(() => {
    if (list.cursor !== null && lastDrawn + AHEAD >= list.order.length) onNearEnd();
  }, [lastDrawn, list, onNearEnd]);
  const arrived = newCount(list);
  const template = `34px ${columns.map((each) => each.width).join(" ")}`;
  return (
    <div className={styles.frame}>
      {arrived > 0 && (
        <Button
          kind="primary"
          className={styles.arrived}
          onClick={() => scroller.current?.scrollTo({ top: 0 })}
        >
          <ArrowUp size={13} aria-hidden />
          {t(list.overflowed ? "newRunsOrMore" : "newRuns", { count: arrived })}
        </Button>
      )}
      <div
        ref={scroller}
        className={styles.scroller}
        onScroll={({ currentTarget }) => onFreeze(currentTarget.scrollTop > ROW_PX / 2)}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
        tabIndex={0}
        role="region"
        aria-label={t("title")}
      >
        <div
          className={styles.table}
          // Absolutely positioned rows cannot be those of a <table>.
          role="table"
          aria-label={t("title")}
          aria-rowcount={list.cursor === null ? list.order.length + 1 : -1}
          style={{ "--columns": template } as CSSProperties}
        >
          {!narrow && <HeadRow names={columns.map((each) => each.name)} list={list} selection={selection} />}
          <div className={styles.rows} role="rowgroup" style={{ height: rows.getTotalSize() }}>
            {drawn.map(({ index, key, start }) => {
              const run = list.rows.get(list.order[index] ?? "");
              if (!run) return null;
              return (
                <Row
                  key={key}
                  run={run}
                  index={index}
                  start={start}
                  shown={shown}
                  narrow={narrow}
                  active={active === run.run_id}
                  selected={selection.everything || selection.ids.has(run.run_id)}
                  onToggle={selection.toggle}
                />
              );
            })}
          </div>
        </div>
        {list.order.length === 0 && empty}
        {list.cursor !== null && list.order.length > 0 && <p className={styles.more}>{t("loadingMore")}</p>}
      </div>
      <PeekLayer within={scroller} rows={list.rows} />
    </div>
  );
}

interface RowProps {
  run: Run;
  index: number;
  start: number;
  shown: readonly ColumnName[];
  narrow: boolean;
  active: boolean;
  selected: boolean;
  onToggle: (id: string) => void;
}

const Row = memo(function Row({ run, index, start, shown, narrow, active, selected, onToggle }: RowProps) {
  const t = useMessages(messages);
  const target = href(pathTo("/runs/:id", { id: run.run_id }));
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the link inside is for the keyboard, this is a larger mark for the mouse.
    <div
      className={joined(
        styles.row,
        narrow && styles.narrowRow,
        active && styles.active,
        selected && styles.selected,
      )}
      role="row"
      aria-rowindex={index + 2}
      data-run={run.run_id}
      style={{ transform: `translateY(${start}px)` }}
      onClick={(event) => {
        const isOwn = event.target instanceof Element && event.target.closest("a, input, label, button");
        if (!isOwn && getSelection()?.isCollapsed !== false) navigate(target);
      }}
    >
      <Cell className={styles.check}>
        <input
          type="checkbox"
          checked={selected}
          aria-label={t("selectRun", { run: run.run_id.slice(0, 8), flow: run.flow_name })}
          onChange={() => onToggle(run.run_id)}
        />
      </Cell>
      {narrow ? (
        <Cell className={styles.narrowCell}>
          <NarrowRow run={run} target={target} />
        </Cell>
      ) : (
        COLUMNS.filter((each) => shown.includes(each.name)).map(({ name, cell }) => (
          <Cell key={name} className={name === "run_id" || name === "duration" ? styles.number : undefined}>
            {name === "flow_name" ? <a href={target}>{cell(run, shown)}</a> : cell(run, shown)}
          </Cell>
        ))
      )}
    </div>
  );
});

function Cell({ className, children }: { className?: string; children: ReactNode }) {
  return (
    <div role="cell" className={joined(styles.cell, className)}>
      {children}
    </div>
  );
}

interface HeadProps {
  names: readonly ColumnName[];
  list: RunList;
  selection: Selection;
}

function HeadRow({ names, list, selection }: HeadProps) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const ordering = orderingOf(query);
  return (
    <div className={styles.headGroup} role="rowgroup">
      <div className={joined(styles.row, styles.head)} role="row" aria-rowindex={1}>
        <div role="columnheader" className={joined(styles.cell, styles.check)}>
          <SelectLoaded list={list} selection={selection} />
        </div>
        {COLUMNS.filter(({ name }) => names.includes(name)).map(({ name, sort }) => (
          <div
            key={name}
            role="columnheader"
            className={styles.cell}
            aria-sort={
              sort && sort === ordering.sort ? (ordering.ascending ? "ascending" : "descending") : undefined
            }
          >
            {sort ? (
              <button type="button" className={styles.sort} onClick={() => change(nextOrder(ordering, sort))}>
                {t(`column.${name}`)}
                {sort === ordering.sort &&
                  (ordering.ascending ? (
                    <ArrowUp size={12} aria-hidden />
                  ) : (
                    <ArrowDown size={12} aria-hidden />
                  ))}
              </button>
            ) : (
              t(`column.${name}`)
            )}
          </div>
        ))}
      </div>
    </div>
  );
}

/** Selects all rows that are loaded, or none. */
function SelectLoaded({ list, selection }: { list: RunList; selection: Selection }) {
  const t = useMessages(messages);
  const box = useRef<HTMLInputElement>(null);
  const count = list.order.length;
  const isAll = selection.everything || (count > 0 && list.order.every((id) => selection.ids.has(id)));
  const isSome = !isAll && selection.ids.size > 0;
  useEffect(() => {
    if (box.current) box.current.indeterminate = isSome;
  }, [isSome]);
  return (
    <input
      ref={box}
      type="checkbox"
      checked={isAll}
      disabled={count === 0}
      aria-label={t("selectLoaded", { count })}
      title={t("selectLoaded", { count })}
      onChange={() => (isAll ? selection.clear() : selection.select(list.order))}
    />
  );
}

/** The same column again reverses the order. */
function nextOrder(now: Ordering, sort: Sort): { sort: string; order: string } {
  const ascending = now.sort === sort ? !now.ascending : sort === "flow_name" || sort === "status";
  return { sort, order: ascending ? "asc" : "desc" };
}

/** The row of `j`, `k`, `Enter` and `x`. It stays with its run when rows move. */
function useActiveRow(list: RunList, scrollTo: (index: number) => void, selection: Selection): string | null {
  const t = useMessages(messages);
  const [active, setActive] = useState<string | null>(null);
  const move = (step: number) => {
    const at = active === null ? -1 : list.order.indexOf(active);
    const next = stepped(at, step, list.order.length);
    setActive(list.order[next] ?? null);
    if (next >= 0) scrollTo(next);
  };
  useStepKeys(move, { next: t("keyNext"), previous: t("keyPrevious") });
  useShortcut("Enter", () => active && navigate(href(pathTo("/runs/:id", { id: active }))), t("keyOpen"));
  useShortcut("x", () => active && selection.toggle(active), t("keySelect"));
  useShortcut("shift+x", () => selection.select(list.order), t("keySelectAll"));
  return active;
}
