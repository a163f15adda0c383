/** The filters of runs: text, words such as `flow:etl`, statuses with counts, and time. */
import { useEffect, useRef, useState } from "react";
import { type QueryPatch, useQueryState } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { exactTime } from "../../i18n/time";
import { CAUSES, useCauseText } from "../../ui/cause";
import { joined, Select } from "../../ui/controls";
import { FilterChips, FilterRow, SpanSelect, searchTyped } from "../../ui/filters";
import { SearchField } from "../../ui/SearchField";
import { RUN_STATUSES, StatusIcon, toneClass, useStatusText } from "../../ui/status";
import { completionsFor } from "./completions";
import type { Count, Counts } from "./counts";
import styles from "./FilterBar.module.css";
import { FURTHER, isMoment, isOneOf, MOMENTS, parseTyped, WORDS } from "./filters";
import { messages } from "./messages";
import type { Run } from "./runList";
import { useKnownValues } from "./useKnownValues";

export const NO_FILTERS: QueryPatch = Object.fromEntries(
  ["status", "q", "since", "view", "own", ...FURTHER, ...MOMENTS, ...WORDS].map((name) => [name, null]),
);

interface FilterBarProps {
  counts: Counts | undefined;
  /** The runs that are loaded: what they have is suggested. */
  rows: ReadonlyMap<string, Run>;
}

export function FilterBar({ counts, rows }: FilterBarProps) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const [asked, setAsked] = useState(false);
  const known = useKnownValues(rows, asked);
  return (
    <FilterRow>
      <SearchField
        label={t("searchLabel")}
        placeholder={t("searchPlaceholder")}
        value={query.get("q") ?? ""}
        onFocus={() => setAsked(true)}
        suggest={(text, caret) => completionsFor(text, caret, known())}
        onSearch={searchTyped(parseTyped, change)}
      />
      <SpanSelect label={t("since")} text={(span) => t(`span.${span}`)} />
      <CauseSelect />
      <StatusChips counts={counts} />
      <WordChips />
    </FilterRow>
  );
}

/** By kind; a link may name one schedule: `cause=schedule:nightly`. */
function CauseSelect() {
  const t = useMessages(messages);
  const word = useCauseText();
  const [query, change] = useQueryState();
  const [kind = ""] = (query.get("cause") ?? "").split(":");
  return (
    <Select
      aria-label={t("causeFilter")}
      value={isOneOf(CAUSES, kind) ? kind : ""}
      onChange={({ target }) => change({ cause: target.value || null })}
    >
      <option value="">{t("anyCause")}</option>
      {CAUSES.map((each) => (
        <option key={each} value={each}>
          {word(each)}
        </option>
      ))}
    </Select>
  );
}

const COMPACT = 9_999;
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 0 });

/** At most five characters, so that a chip keeps its width. */
const countText = ({ count, exact }: Count): string =>
  `${count > COMPACT ? compact.format(count) : count.toLocaleString("en")}${exact ? "" : "+"}`;

function StatusChips({ counts }: { counts: Counts | undefined }) {
  const t = useMessages(messages);
  const word = useStatusText();
  const [query, change] = useQueryState();
  const chosen = query.getAll("status");
  const chips = useRef<HTMLFieldSetElement>(null);
  const first = chosen[0];
  // On a phone the chips scroll sideways: a filter must not be out of sight.
  useEffect(() => {
    if (first === undefined) return;
    const chip = chips.current?.querySelector("[aria-pressed=true]");
    chip?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [first]);
  const toggle = (status: string) =>
    change({
      status: chosen.includes(status) ? chosen.filter((each) => each !== status) : [...chosen, status],
    });
  return (
    <fieldset ref={chips} className={styles.statuses} aria-label={t("statusFilter")}>
      {RUN_STATUSES.map((status) => {
        const count = counts?.byStatus[status];
        return (
          <button
            key={status}
            type="button"
            className={joined(styles.status, toneClass(status))}
            title={count && count.count > COMPACT ? count.count.toLocaleString() : undefined}
            aria-pressed={chosen.includes(status)}
            onClick={() => toggle(status)}
          >
            <StatusIcon status={status} />
            {word(status)}
            <span className={styles.count}>{count && countText(count)}</span>
          </button>
        );
      })}
    </fieldset>
  );
}

/** Filters of the URL that have no control above. */
function WordChips() {
  const t = useMessages(messages);
  const language = useLanguage();
  const [query] = useQueryState();
  const chips = [...WORDS, ...FURTHER, ...MOMENTS, "q" as const]
    .filter((name) => query.get(name))
    .map((name) => {
      const value = query.get(name) ?? "";
      const isTime = isOneOf(MOMENTS, name) && isMoment(value);
      return {
        key: name,
        name: t(`word.${name}`),
        value: isTime ? exactTime(Number(value), language) : value,
        without: { [name]: null },
      };
    });
  if (chips.length === 0) return null;
  return <FilterChips chips={chips} none={NO_FILTERS} />;
}
