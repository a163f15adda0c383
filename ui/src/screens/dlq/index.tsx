/** The dead letters. */
import { Layers, MailCheck, SearchX } from "lucide-react";
import { useMemo, useState } from "react";
import { useRead } from "../../api/queries";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button, Segments } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { Menu, MenuItem } from "../../ui/menus";
import { Page } from "../../ui/Page";
import { Pagination } from "../../ui/Pagination";
import { BulkDialog, type BulkRequested } from "./BulkDialog";
import styles from "./Dlq.module.css";
import { FilterBar } from "./FilterBar";
import {
  apiFilter,
  chosenFilter,
  type LetterFilter,
  type LetterState,
  NO_FILTERS,
  STATES,
  stateOf,
} from "./filters";
import { LetterDialog } from "./LetterDialog";
import { LetterSelection } from "./LetterSelection";
import { LetterTable } from "./LetterTable";
import { readLetters } from "./letters";
import { messages } from "./messages";

const EVERY_MS = 5_000;
const NONE: ReadonlySet<number> = new Set();

export default function DlqScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const [bulk, setBulk] = useState<BulkRequested | null>(null);
  const [selected, setSelected] = useState(NONE);
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
          <MenuItem onSelect={() => setBulk({ action: "replay", filter })}>{t("bulkReplay")}</MenuItem>
          <MenuItem danger onSelect={() => setBulk({ action: "delete", filter })}>
            {t("bulkDelete")}
          </MenuItem>
        </Menu>
      }
    >
      <p className={styles.purpose}>{t("purpose")}</p>
      <div className={styles.states}>
        <Segments
          label={t("state")}
          value={stateOf(query)}
          options={STATES.map((value) => ({ value, label: t(`state.${value}`) }))}
          onChange={(state) => change({ state: state === "open" ? null : state, cursor: null })}
        />
      </div>
      <FilterBar />
      {error && (
        <div className={styles.problem}>
          <ProblemBox problem={error} onRetry={() => void refetch()} />
        </div>
      )}
      {isPending && <Loading />}
      {letters.length > 0 && <LetterTable letters={letters} selected={selected} onSelect={setSelected} />}
      {data && letters.length === 0 && <NoLetters state={stateOf(query)} filter={filter} further={further} />}
      {letters.length > 0 && <Pagination next={further} first={t("newest")} further={t("older")} />}
      {seq && <LetterDialog key={seq} seq={seq} onClose={() => change({ seq: null }, { replace: true })} />}
      <LetterSelection
        // What has left the page is not touched.
        letters={letters.filter(({ seq }) => selected.has(seq))}
        onAct={(action, chosen) => setBulk({ action, filter: chosenFilter(chosen), chosen })}
        onClear={() => setSelected(NONE)}
      />
      {bulk && (
        <BulkDialog
          {...bulk}
          onClose={(started) => {
            setBulk(null);
            if (started) setSelected(NONE);
          }}
        />
      )}
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

interface NoLettersProps {
  state: LetterState;
  filter: LetterFilter;
  further: string | null;
}

function NoLetters({ state, filter, further }: NoLettersProps) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  const isFiltered = Object.keys(filter).some((name) => name !== "state");
  if (!isFiltered && further === null)
    return (
      <EmptyState icon={MailCheck} title={t(state === "closed" ? "emptyClosedTitle" : "emptyTitle")}>
        {t(state === "closed" ? "emptyClosedText" : "emptyText")}
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
