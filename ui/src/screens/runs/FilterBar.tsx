/** Which runs are shown: text, words such as `flow:etl`, statuses with their counts, and a time. */
import { Search, X } from "lucide-react";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { type QueryPatch, useQueryState } from "../../app/router";
import { useShortcut } from "../../app/shortcuts";
import { useMessages } from "../../i18n/messages";
import { Button, Input, joined, Kbd, Select } from "../../ui/controls";
import { RUN_STATUSES, StatusIcon, toneClass, useStatusWord } from "../../ui/status";
import type { Counts } from "./counts";
import styles from "./FilterBar.module.css";
import { parseTyped, SPANS, type Span, spanOf, WORDS } from "./filters";
import { messages } from "./messages";

export const NO_FILTERS: QueryPatch = Object.fromEntries(
  ["status", "q", "since", "workflow_yaml_sha256", ...WORDS].map((name) => [name, null]),
);

export function FilterBar({ counts }: { counts: Counts | undefined }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const spans: (Span | "any")[] = ["any", ...(Object.keys(SPANS) as Span[])];
  return (
    <div className={styles.bar}>
      <SearchField />
      <Select
        className={styles.span}
        aria-label={t("since")}
        value={spanOf(query) ?? "any"}
        onChange={({ target }) => change({ since: target.value === "any" ? null : target.value })}
      >
        {spans.map((span) => (
          <option key={span} value={span}>
            {t(`span.${span}`)}
          </option>
        ))}
      </Select>
      <StatusChips counts={counts} />
      <WordChips />
    </div>
  );
}

function SearchField() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const kept = query.get("q") ?? "";
  const [text, setText] = useState(kept);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setText(kept), [kept]);
  useShortcut("/", () => field.current?.focus(), t("keySearch"));
  const apply = (event: FormEvent) => {
    event.preventDefault();
    const patch = parseTyped(text);
    change(patch);
    setText(typeof patch.q === "string" ? patch.q : "");
  };
  return (
    <form className={styles.search} onSubmit={apply}>
      <Search size={14} aria-hidden />
      <Input
        ref={field}
        type="search"
        aria-label={t("searchLabel")}
        placeholder={t("searchPlaceholder")}
        value={text}
        maxLength={200}
        onChange={(event) => setText(event.target.value)}
        onBlur={() => text.trim() === "" && kept && change({ q: null })}
        onKeyDown={(event) => event.key === "Escape" && field.current?.blur()}
      />
      <Kbd>/</Kbd>
    </form>
  );
}

function StatusChips({ counts }: { counts: Counts | undefined }) {
  const t = useMessages(messages);
  const word = useStatusWord();
  const [query, change] = useQueryState();
  const chosen = query.getAll("status");
  const toggle = (status: string) =>
    change({
      status: chosen.includes(status) ? chosen.filter((each) => each !== status) : [...chosen, status],
    });
  return (
    <fieldset className={styles.statuses} aria-label={t("statusFilter")}>
      {RUN_STATUSES.map((status) => {
        const count = counts?.byStatus[status];
        return (
          <button
            key={status}
            type="button"
            className={joined(styles.status, toneClass(status), count?.count === 0 && styles.none)}
            aria-pressed={chosen.includes(status)}
            onClick={() => toggle(status)}
          >
            <StatusIcon status={status} />
            {word(status)}
            <span className={styles.count}>
              {count && `${count.count.toLocaleString()}${count.exact ? "" : "+"}`}
            </span>
          </button>
        );
      })}
    </fieldset>
  );
}

function WordChips() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const set = [...WORDS, "q" as const].filter((name) => query.get(name));
  const anything = set.length > 0 || query.has("status") || query.has("since");
  if (!anything) return null;
  return (
    <div className={styles.chips}>
      {set.map((name) => {
        const value = query.get(name) ?? "";
        return (
          <span key={name} className={styles.chip}>
            <span className={styles.chipName}>{t(`word.${name}`)}</span>
            <span className={styles.chipValue}>{value}</span>
            <button
              type="button"
              aria-label={t("removeFilter", { filter: `${t(`word.${name}`)} ${value}` })}
              onClick={() => change({ [name]: null })}
            >
              <X size={12} aria-hidden />
            </button>
          </span>
        );
      })}
      <Button kind="plain" onClick={() => change(NO_FILTERS)}>
        {t("clearAll")}
      </Button>
    </div>
  );
}
