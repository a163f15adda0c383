/** The buttons to the first and to the next page of a list whose cursor is in the URL. */
import { useQueryState } from "../app/router";
import { useMessages } from "../i18n/messages";
import { Button } from "./controls";
import styles from "./filters.module.css";
import { messages } from "./messages";

interface PaginationProps {
  /** The cursor of the next page; none: this is the last one. */
  next: string | null | undefined;
  /** Other texts, for a list by time. */
  first?: string;
  further?: string;
}

export function Pagination({ next, first, further }: PaginationProps) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const isFirst = !query.has("cursor");
  if (isFirst && !next) return null;
  return (
    <nav className={styles.pages} aria-label={t("pages")}>
      <Button disabled={isFirst} onClick={() => change({ cursor: null })}>
        {first ?? t("firstPage")}
      </Button>
      <Button disabled={!next} onClick={() => change({ cursor: next })}>
        {further ?? t("nextPage")}
      </Button>
    </nav>
  );
}
