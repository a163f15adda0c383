/** The audit log: who did what. */
import { Lock, ScrollText } from "lucide-react";
import { useMemo } from "react";
import { useRead } from "../../api/queries";
import { useQueryState } from "../../app/router";
import styles from "../../audit/Audit.module.css";
import { readAudit } from "../../audit/auditApi";
import { messages } from "../../audit/messages";
import { useMessages } from "../../i18n/messages";
import { EmptyState, Loading, NothingMatches, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { Pagination } from "../../ui/Pagination";
import { AuditTable } from "./AuditTable";
import { FilterBar } from "./FilterBar";
import { apiFilter, NO_FILTERS } from "./filters";

const EVERY_MS = 5_000;
const PAGE_SIZE = 50;
const FORBIDDEN = 403;

export default function AuditScreen() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const key = query.toString();
  // A relative time is resolved only when the URL changes.
  const filter = useMemo(() => apiFilter(new URLSearchParams(key), Date.now() / 1000), [key]);
  const cursor = query.get("cursor");
  const { data, error, isPending, refetch } = useRead(
    ["audit", key],
    (signal) => readAudit(filter, { cursor, limit: PAGE_SIZE }, signal),
    // New entries appear on the first page; later pages do not change.
    { keep: true, every: cursor === null ? EVERY_MS : undefined },
  );
  const entries = data?.items ?? [];
  if (error?.status === FORBIDDEN)
    return (
      <Page title={t("title")}>
        <EmptyState icon={Lock} title={t("noScope")}>
          {t("noScopeText")}
        </EmptyState>
      </Page>
    );
  return (
    <Page title={t("title")}>
      <p className={styles.intro}>{t("intro")}</p>
      <FilterBar />
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      {entries.length > 0 && <AuditTable entries={entries} />}
      {data && entries.length === 0 && (
        <NoEntries filtered={Object.values(filter).some(Boolean) || cursor !== null} />
      )}
      <Pagination next={data?.next_cursor} first={t("newest")} further={t("older")} />
    </Page>
  );
}

function NoEntries({ filtered }: { filtered: boolean }) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  if (!filtered)
    return (
      <EmptyState icon={ScrollText} title={t("emptyTitle")}>
        {t("emptyText")}
      </EmptyState>
    );
  return (
    <NothingMatches title={t("nothingTitle")} onClear={() => change(NO_FILTERS)}>
      {t("nothingText")}
    </NothingMatches>
  );
}
