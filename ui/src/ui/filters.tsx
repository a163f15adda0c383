/** A filter bar, with a chip per active filter. */
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { type QueryPatch, useQueryState } from "../app/router";
import { useMessages } from "../i18n/messages";
import { Button, Select } from "./controls";
import styles from "./filters.module.css";
import { messages } from "./messages";
import { SPAN_NAMES, type Span } from "./timeRanges";
import { UserText } from "./UserText";

export function FilterRow({ children }: { children: ReactNode }) {
  return <search className={styles.row}>{children}</search>;
}

interface FilterSelectProps<T extends string> {
  /** The parameter of the URL; another value begins at the first page. */
  name: string;
  label: string;
  /** The option without a filter. */
  any: string;
  options: readonly T[];
  text: (option: T) => string;
}

export function FilterSelect<T extends string>(props: FilterSelectProps<T>) {
  const { name, label, any, options, text } = props;
  const [query, change] = useQueryState();
  return (
    <Select
      aria-label={label}
      value={options.find((each) => each === query.get(name)) ?? ""}
      onChange={({ target }) => change({ [name]: target.value, cursor: null })}
    >
      <option value="">{any}</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {text(option)}
        </option>
      ))}
    </Select>
  );
}

interface SpanSelectProps {
  label: string;
  text: (span: Span | "any") => string;
}

/** The time range of a list. */
export const SpanSelect = ({ label, text }: SpanSelectProps) => (
  <FilterSelect name="since" label={label} any={text("any")} options={SPAN_NAMES} text={text} />
);

/** A chip for each of these parameters that the URL has. */
export function wordChips<T extends string>(
  query: URLSearchParams,
  names: readonly T[],
  text: (name: T) => string,
): Chip[] {
  return names
    .filter((name) => query.get(name))
    .map((name) => ({
      key: name,
      name: text(name),
      value: query.get(name) ?? "",
      without: { [name]: null, cursor: null },
    }));
}

/** The `onSearch` of a field for text and words such as `flow:etl`. The text is left in the field. */
export const searchTyped =
  (parse: (text: string) => QueryPatch, change: (patch: QueryPatch) => void) =>
  (text: string): string => {
    const patch = parse(text);
    change(patch);
    return typeof patch.q === "string" ? patch.q : "";
  };

/** For `searchTyped`: all of the text is searched for. */
export const searchText = (text: string): QueryPatch => ({ q: text.trim() || null, cursor: null });

export interface Chip {
  key: string;
  name: string;
  value: string;
  /** The URL without it. */
  without: QueryPatch;
}

interface FilterChipsProps {
  chips: readonly Chip[];
  /** The URL without any filter. */
  none: QueryPatch;
}

export function FilterChips({ chips, none }: FilterChipsProps) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  return (
    <div className={styles.chips}>
      {chips.map(({ key, name, value, without }) => (
        <span key={key} className={styles.chip}>
          <span className={styles.name}>{name}</span>
          <span className={styles.value}>
            <UserText text={value} />
          </span>
          <button
            type="button"
            aria-label={t("removeFilter", { filter: `${name} ${value}` })}
            onClick={() => change(without)}
          >
            <X size={12} aria-hidden />
          </button>
        </span>
      ))}
      <Button kind="plain" onClick={() => change(none)}>
        {t("clearFilters")}
      </Button>
    </div>
  );
}
