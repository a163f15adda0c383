/** The dead letters. */
import { Layers, MailCheck, SearchX } from "lucide-react";
import { useMemo, useState } from "react";
import { useRead } from "../../api/queries";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { Menu, MenuItem } from "../../ui/menus";
import { Page } from "../../ui/Page";
import { type BulkAction, BulkDialog } from "./BulkDialog";
import styles from "./Dlq.module.css";
import { FilterBar } from "./FilterBar";
import { apiFilter, NO_FILTERS } from "./filters";
import { LetterDialog } from "./LetterDialog";
import { LetterTable } from "./LetterTable";
import { readLetters } from "./letters";
import { messages } from "./messages";

const EVERY_MS = 5_000;

export default function DlqScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const [bulk, setBulk] = useState<BulkAction | null>(null);
  const { filter, cursor, key } = useFilter(query);
  const { data, error, isPending, refetch } = useRead(
    ["dlq", "list", key],
    (signal) => readLetters(filter, cursor, signal),
    // New letters appear on the first page; later pages do not change.
    { keep: true, every: cursor === null ? EVERY_MS : undefined },
  );
  const letters = data?.items ?? [];
  const further = data?.next_cursor ?? null;
  const seq = query.get("seq");
  return (
    <Page
      title={t("title")}
      note={
        letters.length > 0 && <Count count={letters.length} partly={further !== null || cursor !== null} />
      }
      actions={
        <Menu
          align="end"
          trigger={
            <Button disabled={letters.length === 0}>
              <Layers size={14} aria-hidden />
              {t("bulk")}
            </Button>
          }
        >
          <MenuItem onSelect={() => setBulk("replay")}>{t("bulkReplay")}</MenuItem>
          <MenuItem danger onSelect={() => setBulk("delete")}>
            {t("bulkDelete")}
          </MenuItem>
        </Menu>
      }
    >
      <FilterBar />
      {error && (
        <div className={styles.problem}>
          <ProblemBox problem={error} onRetry={() => void refetch()} />
        </div>
      )}
      {isPending && <Loading />}
      {letters.length > 0 && <LetterTable letters={letters} />}
      {data && letters.length === 0 && (
        <NoLetters filtered={Object.keys(filter).length > 0} further={further} />
      )}
      {letters.length > 0 && (cursor !== null || further !== null) && (
        <nav className={styles.pages} aria-label={t("pages")}>
          <Button disabled={cursor === null} onClick={() => change({ cursor: null })}>
            {t("newest")}
          </Button>
          <Button disabled={further === null} onClick={() => change({ cursor: further })}>
            {t("older")}
          </Button>
        </nav>
      )}
      {seq && <LetterDialog key={seq} seq={seq} onClose={() => change({ seq: null }, { replace: true })} />}
      {bulk && <BulkDialog action={bulk} filter={filter} onClose={() => setBulk(null)} />}
    </Page>
  );
}

/** The filter of the URL. A relative time is resolved only when the URL changes. */
function useFilter(query: URLSearchParams) {
  const filtering = new URLSearchParams(query);
  filtering.delete("seq");
  const key = filtering.toString();
  return useMemo(() => {
    const given = new URLSearchParams(key);
    return { key, filter: apiFilter(given, Date.now() / 1000), cursor: given.get("cursor") };
  }, [key]);
}

function Count({ count, partly }: { count: number; partly: boolean }) {
  const t = useMessages(messages);
  return partly ? t("shownMore", { count }) : t("shown", { count });
}

function NoLetters({ filtered, further }: { filtered: boolean; further: string | null }) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  if (!filtered && further === null)
    return (
      <EmptyState icon={MailCheck} title={t("emptyTitle")}>
        {t("emptyText")}
      </EmptyState>
    );
  return (
    <EmptyState
      icon={SearchX}
      title={further === null ? t("nothingTitle") : t("nothingYet")}
      actions={
        <>
          {further !== null && (
            <Button kind="primary" onClick={() => change({ cursor: further })}>
              {t("goOn")}
            </Button>
          )}
          <Button onClick={() => change(NO_FILTERS)}>{t("nothingClear")}</Button>
        </>
      }
    >
      {t("nothingText")}
    </EmptyState>
  );
}
