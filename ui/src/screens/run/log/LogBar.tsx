/** The filters of the log. */
import { Download, Filter, Search, WrapText } from "lucide-react";
import { useRef } from "react";
import { useAct } from "../../../api/queries";
import type { QueryPatch } from "../../../app/router";
import { useShortcut } from "../../../app/shortcuts";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { Button, IconButton, Input, joined, Segments } from "../../../ui/controls";
import { Menu, MenuCheck, MenuLabel, MenuLine } from "../../../ui/menus";
import { messages } from "../messages";
import styles from "./Log.module.css";
import { asText, type LogFilter, type LogLine, STREAMS } from "./logLines";
import { wholeLog } from "./wholeLog";

const LEVELS = ["other", "warning", "error"] as const;

interface LogBarProps {
  id: string;
  lines: readonly LogLine[];
  /** The number of earlier lines that are not loaded. */
  leftOut: number;
  /** The last loaded line, visible or not. */
  newest: string | undefined;
  filter: LogFilter;
  selected: string | null;
  everything: boolean;
  wrap: boolean;
  search: string;
  onSearch: (text: string) => void;
  /** The search is finished: it may go into the URL. */
  onSearched: () => void;
  onChange: (patch: QueryPatch) => void;
  onWrap: () => void;
}

export function LogBar(props: LogBarProps) {
  const { id, lines, leftOut, newest, filter, selected, everything, wrap, search } = props;
  const t = useMessages(messages);
  const input = useRef<HTMLInputElement>(null);
  useShortcut("/", () => input.current?.select(), t("keySearch"));
  useShortcut("w", props.onWrap, t("keyWrap"));
  const narrowed = filter.level !== "other" || filter.streams.size < STREAMS.length;
  const save = (texts: string[]) => download(`${id}${filter.task ? `-${filter.task}` : ""}.log`, texts);
  const whole = useAct(async () => ({ data: await wholeLog(id, filter, newest) }), { onDone: save });
  const toggle = (stream: string) => {
    const next = STREAMS.filter((each) => filter.streams.has(each) !== (each === stream));
    props.onChange({ stream: next.length === STREAMS.length ? null : next });
  };
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
            if (event.key === "Enter") props.onSearched();
            if (event.key === "Escape") event.currentTarget.blur();
          }}
        />
      </span>
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
        {LEVELS.map((level) => (
          <MenuCheck
            key={level}
            checked={filter.level === level}
            onChange={() => props.onChange({ level: level === "other" ? null : level })}
          >
            {t(`level.${level}`)}
          </MenuCheck>
        ))}
      </Menu>
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
        disabled={(lines.length === 0 && leftOut === 0) || whole.isPending}
        onClick={() => (leftOut > 0 ? whole.mutate() : save([asText(lines)]))}
      />
    </div>
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
