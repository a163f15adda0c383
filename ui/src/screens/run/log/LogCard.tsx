/** The log of the run: live, by task, with search and download. */
import { ArrowDown, ScrollText } from "lucide-react";
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { useQueryState } from "../../../app/router";
import { useMessages } from "../../../i18n/messages";
import { storedValue, useStore } from "../../../lib/store";
import { Button } from "../../../ui/controls";
import { ProblemBox } from "../../../ui/feedback";
import { messages } from "../messages";
import { Panel } from "../Panel";
import styles from "./Log.module.css";
import { LogBar } from "./LogBar";
import { LogRows, type LogRowsHandle } from "./LogRows";
import { type Level, type LogFilter, nothingIn, STREAMS, shown } from "./logLines";
import { useLog } from "./useLog";

const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";
const wrapped = storedValue<boolean>(() => localStorage, "pyoco.log.wrap", true, isBoolean);

interface LogCardProps {
  id: string;
  selected: string | null;
  onSelect: (name: string | null) => void;
}

export function LogCard({ id, selected, onSelect }: LogCardProps) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const log = useLog(id);
  const wrap = useStore(wrapped);
  const [search, setSearch] = useState(query.get("search") ?? "");
  const looked = useDeferredValue(search);
  const everything = query.get("log") === "all";
  const streams = query.getAll("stream").join();
  const level = levelIn(query.get("level"));
  const filter = useMemo<LogFilter>(
    () => ({
      task: everything ? null : selected,
      streams: new Set(streams ? streams.split(",") : STREAMS),
      level,
      search: looked,
    }),
    [everything, selected, streams, level, looked],
  );
  const lines = useMemo(() => shown(log.lines, filter), [log.lines, filter]);
  const rows = useRef<LogRowsHandle>(null);
  const [following, setFollowing] = useState(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each time that there is more, or something else.
  useEffect(() => {
    if (following) rows.current?.toEnd();
  }, [lines, following, wrap]);
  return (
    <Panel
      title={t("log")}
      icon={ScrollText}
      className={styles.card}
      actions={
        <LogBar
          id={id}
          lines={lines}
          leftOut={log.leftOut}
          newest={log.lines.at(-1)?.id}
          filter={filter}
          selected={selected}
          everything={everything}
          wrap={wrap}
          search={search}
          onSearch={setSearch}
          onSearched={() => change({ search }, { replace: true })}
          onChange={(patch) => change(patch, { replace: true })}
          onWrap={() => wrapped.set(!wrap)}
        />
      }
    >
      {log.problem && <ProblemBox problem={log.problem} />}
      {log.leftOut > 0 && <p className={styles.leftOut}>{t("leftOut", { count: log.leftOut })}</p>}
      {lines.length > 0 ? (
        <LogRows
          ref={rows}
          lines={lines}
          wrap={wrap}
          search={looked}
          selected={selected}
          onSelect={onSelect}
          onAtEnd={setFollowing}
        />
      ) : (
        <p className={styles.nothing} role="status">
          {t(`nothing.${nothingIn(log, filter.task, log.complete)}`, { task: filter.task ?? "" })}
        </p>
      )}
      {!following && lines.length > 0 && (
        <Button kind="primary" className={styles.toEnd} onClick={() => setFollowing(true)}>
          <ArrowDown size={13} aria-hidden />
          {t("toEnd")}
        </Button>
      )}
      <p className={styles.foot}>
        {t("lineCount", { count: lines.length })}
        {!log.complete && !log.problem && <span>{t("logLive")}</span>}
      </p>
    </Panel>
  );
}

const levelIn = (word: string | null): Level => (word === "warning" || word === "error" ? word : "other");
