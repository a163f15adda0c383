/** A filter bar, with a chip per active filter. */
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { type QueryPatch, useQueryState } from "../app/router";
import { useMessages } from "../i18n/messages";
import { Button } from "./controls";
import styles from "./filters.module.css";
import { messages } from "./messages";
import { UserText } from "./UserText";

export function FilterRow({ children }: { children: ReactNode }) {
  return <search className={styles.row}>{children}</search>;
}

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
