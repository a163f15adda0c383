/** The log of the run: live, by task, with search, levels, links to lines and download. */
import { ArrowDown, ChevronDown, ChevronUp, ScrollText } from "lucide-react";
import {
  type ReactNode,
  useDeferredValue,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { href, pathTo, useQueryState } from "../../../app/router";
import { useMessages } from "../../../i18n/messages";
import { storedValue, useStore } from "../../../lib/store";
import { Button } from "../../../ui/controls";
import { ProblemBox } from "../../../ui/feedback";
import { Panel } from "../Panel";
import styles from "./Log.module.css";
import { LogBar } from "./LogBar";
import { LogRows, type LogRowsHandle } from "./LogRows";
import { contextFilter, type LogFilter, matchesIn, nothingIn, STREAMS, shown } from "./logLines";
import { messages } from "./messages";
import { LEVELS, type Level } from "./structure";
import { type Log, useLiveLog, useLogAround } from "./useLog";

const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";
const wrapped = storedValue<boolean>(() => localStorage, "pyoco.log.wrap", true, isBoolean);
const opened = storedValue<boolean>(() => localStorage, "pyoco.log.fields", false, isBoolean);
const MOST_CONTEXT = 100;

interface LogCardProps {
  id: string;
  selected: string | null;
  onSelect: (name: string | null) => void;
  /** Whether the run has ended. */
  isOver: boolean;
  /** Whether the record of the selected task, or of any, has output. */
  hasPrinted: boolean;
}

export function LogCard(props: LogCardProps) {
  const [query] = useQueryState();
  const line = query.get("line");
  // Another part of the log is another list of lines.
  return <ShownLog key={line ?? ""} linked={line} {...props} />;
}

function ShownLog({
  id,
  linked,
  selected,
  onSelect,
  isOver,
  hasPrinted,
}: LogCardProps & { linked: string | null }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const live = useLiveLog(linked === null ? id : null, isOver);
  const around = useLogAround(id, linked);
  const log = linked === null ? live : around;
  const wrap = useStore(wrapped);
  const fieldsOpen = useStore(opened);
  const [search, setSearch] = useState(query.get("search") ?? "");
  const looked = useDeferredValue(search);
  const everything = query.get("log") === "all";
  const context = contextIn(query.get("only"));
  const filter = useFilter(query, everything ? null : selected, looked);
  const { lines, skipped } = useMemo(() => selectedLines(log.lines, filter), [log.lines, filter]);
  const rows = useRef<LogRowsHandle>(null);
  const [following, setFollowing] = useState(linked === null);
  const found = useMatches(lines, looked, (line) => {
    setFollowing(false);
    rows.current?.toLine(line);
  });
  const earlier = () => log.earlier?.();
  const card = useScrolledToLine(
    linked,
    lines.some((each) => each.id === linked),
    rows,
  );
  return (
    <div ref={card}>
      <Panel
        title={t("log")}
        icon={ScrollText}
        className={styles.card}
        actions={
          <LogBar
            id={id}
            log={log}
            lines={lines}
            filter={filter}
            selected={selected}
            everything={everything}
            wrap={wrap}
            search={search}
            matches={found}
            context={context}
            fieldsOpen={fieldsOpen}
            onSearch={setSearch}
            onSearched={() => change({ search }, { replace: true })}
            onChange={(patch) => change(patch, { replace: true })}
            onWrap={() => wrapped.set(!wrap)}
            onFields={() => opened.set(!fieldsOpen)}
          />
        }
      >
        {log.problem && <ProblemBox problem={log.problem} />}
        {log.leftOut > 0 && (
          <p className={styles.leftOut}>{t(looked ? "notSearched" : "leftOut", { count: log.leftOut })}</p>
        )}
        {linked !== null && !log.isLoading && !log.problem && !log.lines.some(({ id }) => id === linked) && (
          <p className={styles.leftOut} role="status">
            {t("linkedGone")}
          </p>
        )}
        {log.earlier && (
          <More onLoad={() => (rows.current ? rows.current.keepPlace(earlier) : earlier())}>
            <ChevronUp size={13} aria-hidden />
            {t("earlier")}
          </More>
        )}
        {lines.length > 0 ? (
          <LogRows
            ref={rows}
            lines={lines}
            skipped={skipped}
            wrap={wrap}
            search={looked}
            current={found.current ?? linked}
            selected={selected}
            fieldsOpen={fieldsOpen}
            onSelect={onSelect}
            following={following}
            // A part of the log has no end to follow.
            onFollow={(follow) => setFollowing(follow && linked === null)}
            linkTo={(line) => href(pathTo("/runs/:id", { id }), { line })}
          />
        ) : (
          !log.problem && <Nothing log={log} task={filter.task} hasPrinted={hasPrinted} />
        )}
        {log.later && (
          <div className={styles.below}>
            <More onLoad={log.later}>
              <ChevronDown size={13} aria-hidden />
              {t("later")}
            </More>
            <More onLoad={() => change({ line: null })}>
              <ArrowDown size={13} aria-hidden />
              {t("toEnd")}
            </More>
          </div>
        )}
        {linked === null && !following && lines.length > 0 && (
          <Button kind="primary" className={styles.toEnd} onClick={() => setFollowing(true)}>
            <ArrowDown size={13} aria-hidden />
            {t("toEnd")}
          </Button>
        )}
        <p className={styles.foot}>
          {t(linked === null ? "lineCount" : "partCount", { count: lines.length })}
          {linked === null && !isOver && !log.complete && !log.problem && <span>{t("logLive")}</span>}
        </p>
      </Panel>
    </div>
  );
}

/** What the URL says about which lines are shown. */
function useFilter(query: URLSearchParams, task: string | null, search: string): LogFilter {
  const streams = query.getAll("stream").join();
  const level = levelIn(query.get("level"));
  const context = contextIn(query.get("only"));
  return useMemo(
    () => ({
      task,
      streams: new Set(streams ? streams.split(",") : STREAMS),
      level,
      only: context !== null && search ? { search, context } : null,
    }),
    [task, streams, level, context, search],
  );
}

function Nothing({ log, task, hasPrinted }: { log: Log; task: string | null; hasPrinted: boolean }) {
  const t = useMessages(messages);
  const why = log.isLoading ? "loading" : nothingIn(log, task, log.complete);
  // The log is kept for a shorter time than the run.
  const isLost = hasPrinted && (why === "ofRun" || why === "ofTask");
  return (
    <p className={styles.nothing} role="status">
      {t(`nothing.${isLost ? "notStored" : why}`, { task: task ?? "" })}
    </p>
  );
}

function More({ onLoad, children }: { onLoad: () => void; children: ReactNode }) {
  return (
    <Button kind="plain" className={styles.more} onClick={onLoad}>
      {children}
    </Button>
  );
}

/** The lines that pass the filter, and how many were left out before which of them. */
function selectedLines(lines: Log["lines"], filter: LogFilter) {
  const passing = shown(lines, filter);
  if (!filter.only) return { lines: passing, skipped: new Map<string, number>() };
  const found = passing.flatMap(contextFilter(filter.only));
  return {
    lines: found.map(({ line }) => line),
    skipped: new Map(found.filter((each) => each.skipped > 0).map((each) => [each.line.id, each.skipped])),
  };
}

export interface Matches {
  count: number;
  /** From 1; 0: none. */
  at: number;
  /** The id of its line. */
  current: string | null;
  step: (by: number) => void;
}

/** The lines that match the search, one of which is the current one. */
function useMatches(lines: Log["lines"], search: string, onMove: (line: string) => void): Matches {
  const positions = useMemo(() => matchesIn(lines, search), [lines, search]);
  const [chosen, setChosen] = useState<string | null>(null);
  const found = positions.findIndex((position) => lines[position]?.id === chosen);
  const at = Math.max(found, 0);
  const current = lines[positions[at] ?? -1]?.id ?? null;
  const go = (line: string | undefined) => {
    if (line === undefined) return;
    setChosen(line);
    onMove(line);
  };
  // Before it is painted: a later effect would undo a step to the next match that is made meanwhile.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another search moves the lines.
  useLayoutEffect(() => {
    if (search) go(lines[positions[0] ?? -1]?.id);
  }, [search]);
  return {
    count: positions.length,
    at: positions.length > 0 ? at + 1 : 0,
    current,
    step: (by) => go(lines[positions[(at + by + positions.length) % positions.length] ?? -1]?.id),
  };
}

/** Shows the linked line once, when it is loaded. */
function useScrolledToLine(line: string | null, isLoaded: boolean, rows: { current: LogRowsHandle | null }) {
  const card = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (line === null || !isLoaded) return;
    rows.current?.toLine(line);
    card.current?.scrollIntoView({ block: "center" });
  }, [line, isLoaded, rows]);
  return card;
}

const levelIn = (word: string | null): Level | null => LEVELS.find((each) => each === word) ?? null;

/** The number of lines around each match; null: all lines are shown. */
function contextIn(word: string | null): number | null {
  const count = Number(word ?? Number.NaN);
  return Number.isInteger(count) && count >= 0 ? Math.min(count, MOST_CONTEXT) : null;
}
