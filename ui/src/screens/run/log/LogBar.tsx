/** The search and the filters of the log. */
import { ChevronDown, ChevronUp, Download, Filter, ListFilter, Search, WrapText } from "lucide-react";
import { useRef } from "react";
import { useAct } from "../../../api/queries";
import type { QueryPatch } from "../../../app/router";
import { useShortcut } from "../../../app/shortcuts";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { Button, IconButton, Input, joined, Segments, Select } from "../../../ui/controls";
import { Menu, MenuCheck, MenuLabel, MenuLine } from "../../../ui/menus";
import styles from "./Log.module.css";
import type { Matches } from "./LogCard";
import { asText, type LogFilter, type LogLine, STREAMS } from "./logLines";
import { messages } from "./messages";
import type { Log } from "./useLog";
import { wholeLog } from "./wholeLog";

const LEAST_LEVELS = [null, "debug", "info", "warning", "error"] as const;
const CONTEXTS = [0, 2, 5, 20] as const;
const USUAL_CONTEXT = 2;

interface LogBarProps {
  id: string;
  log: Log;
  /** Those shown. */
  lines: readonly LogLine[];
  filter: LogFilter;
  selected: string | null;
  everything: boolean;
  wrap: boolean;
  search: string;
  matches: Matches;
  /** The number of lines around each match; null: all lines are shown. */
  context: number | null;
  fieldsOpen: boolean;
  onSearch: (text: string) => void;
  /** The search is finished: it may go into the URL. */
  onSearched: () => void;
  onChange: (patch: QueryPatch) => void;
  onWrap: () => void;
  onFields: () => void;
}

export function LogBar(props: LogBarProps) {
  const { id, log, lines, filter, selected, everything, wrap, search, matches } = props;
  const t = useMessages(messages);
  const input = useRef<HTMLInputElement>(null);
  useShortcut("/", () => input.current?.select(), t("searchLog"));
  useShortcut("w", props.onWrap, t("wrap"));
  const save = (texts: string[]) => download(`${id}${filter.task ? `-${filter.task}` : ""}.log`, texts);
  const newest = log.later ? undefined : log.lines.at(-1)?.id;
  const whole = useAct(async () => ({ data: await wholeLog(id, filter, newest) }), { onDone: save });
  return (
    <div className={styles.bar}>
      {selected !== null && (
        <Segments
          label={t("logOf")}
          value={everything ? "all" : "task"}
          options={[
            { value: "task", label: visible(selected) },
            { value: "all", label: t("allTasks") },
          ]}
          onChange={(value) => props.onChange({ log: value === "all" ? "all" : null })}
        />
      )}
      <span className={styles.search}>
        <Search size={13} aria-hidden />
        <Input
          ref={input}
          type="search"
          value={search}
          placeholder={t("searchLog")}
          aria-label={t("searchLog")}
          onChange={(event) => props.onSearch(event.target.value)}
          onBlur={props.onSearched}
          onKeyDown={(event) => {
            if (event.key === "Enter") {
              props.onSearched();
              matches.step(event.shiftKey ? -1 : 1);
            }
            if (event.key === "Escape") event.currentTarget.blur();
          }}
        />
      </span>
      {search && <Found {...props} />}
      <ShowMenu {...props} />
      <IconButton
        label={t("wrap")}
        icon={<WrapText size={15} />}
        aria-pressed={wrap}
        className={joined(wrap && styles.pressed)}
        onClick={props.onWrap}
      />
      <IconButton
        label={t("download")}
        icon={<Download size={15} />}
        disabled={(lines.length === 0 && !log.isPart) || whole.isPending}
        onClick={() => (log.isPart ? whole.mutate() : save([asText(lines)]))}
      />
    </div>
  );
}

/** The number of matches, steps between them, and whether only they are shown. */
function Found({ matches, context, onChange }: LogBarProps) {
  const t = useMessages(messages);
  const none = matches.count === 0;
  return (
    <span className={styles.found}>
      <span className={styles.count} role="status">
        {none ? t("noMatch") : t("matchCount", { at: matches.at, count: matches.count })}
      </span>
      <IconButton
        label={t("previousMatch")}
        icon={<ChevronUp size={15} />}
        disabled={none}
        onClick={() => matches.step(-1)}
      />
      <IconButton
        label={t("nextMatch")}
        icon={<ChevronDown size={15} />}
        disabled={none}
        onClick={() => matches.step(1)}
      />
      <IconButton
        label={t("onlyMatches")}
        icon={<ListFilter size={15} />}
        aria-pressed={context !== null}
        className={joined(context !== null && styles.pressed)}
        onClick={() => onChange({ only: context === null ? String(USUAL_CONTEXT) : null })}
      />
      {context !== null && (
        <Select
          aria-label={t("context")}
          title={t("context")}
          className={styles.context}
          value={context}
          onChange={({ target }) => onChange({ only: target.value })}
        >
          {[...new Set([...CONTEXTS, context])].map((count) => (
            <option key={count} value={count}>
              {t("contextLines", { count })}
            </option>
          ))}
        </Select>
      )}
    </span>
  );
}

function ShowMenu({ filter, fieldsOpen, onChange, onFields }: LogBarProps) {
  const t = useMessages(messages);
  const narrowed = filter.level !== null || filter.streams.size < STREAMS.length;
  const toggle = (stream: string) => {
    const next = STREAMS.filter((each) => filter.streams.has(each) !== (each === stream));
    onChange({ stream: next.length === STREAMS.length ? null : next });
  };
  return (
    <Menu
      align="end"
      trigger={
        <Button aria-label={t("show")} className={joined(narrowed && styles.active)}>
          <Filter size={13} aria-hidden />
          <span className={styles.word}>{t("show")}</span>
        </Button>
      }
    >
      <MenuLabel>{t("streams")}</MenuLabel>
      {STREAMS.map((stream) => (
        <MenuCheck key={stream} checked={filter.streams.has(stream)} onChange={() => toggle(stream)}>
          {t(`stream.${stream}`)}
        </MenuCheck>
      ))}
      <MenuLine />
      <MenuLabel>{t("levels")}</MenuLabel>
      {LEAST_LEVELS.map((level) => (
        <MenuCheck key={level} checked={filter.level === level} onChange={() => onChange({ level })}>
          {t(`level.${level ?? "all"}`)}
        </MenuCheck>
      ))}
      <MenuLine />
      <MenuLabel>{t("structured")}</MenuLabel>
      <MenuCheck checked={fieldsOpen} onChange={onFields}>
        {t("openFields")}
      </MenuCheck>
    </Menu>
  );
}

function download(name: string, texts: string[]): void {
  const url = URL.createObjectURL(new Blob(texts, { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
