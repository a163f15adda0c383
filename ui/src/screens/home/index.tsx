/** The home screen. */
import { Play } from "lucide-react";
import { apiKey } from "../../api/apiKey";
import { wantsApiKey } from "../../app/pageConfig";
import { href, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { ButtonLink, Segments } from "../../ui/controls";
import { Loading, ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import type { Window } from "./chart";
import { EndedChart } from "./EndedChart";
import { FailingFlows } from "./FailingFlows";
import { Figures } from "./Figures";
import { FirstSteps } from "./FirstSteps";
import styles from "./Home.module.css";
import { messages } from "./messages";
import { OpenQuestions } from "./OpenQuestions";
import { Queues } from "./Queues";
import { prefetchHomeData, useHomeData } from "./useHomeData";
import { WarningList } from "./WarningList";

const WINDOWS: readonly Window[] = ["1h", "24h", "7d"];

const windowOf = (query: URLSearchParams): Window =>
  WINDOWS.find((each) => each === query.get("window")) ?? "24h";

export function begin(query: URLSearchParams): void {
  if (!wantsApiKey || apiKey.get()) prefetchHomeData(windowOf(query));
}

export default function HomeScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const window = windowOf(query);
  const { overview, waits, warnings, isAllKnown, problem } = useHomeData(window);
  const found = overview.data;
  const unread = problem?.message ?? (found?.firing_alerts === null ? t("alertsNotRead") : null);
  const isFresh = found !== undefined && Object.values(found.statuses).every((count) => count === 0);
  return (
    <Page
      title={t("title")}
      actions={
        <>
          {!isFresh && (
            <Segments
              label={t("window")}
              value={window}
              options={WINDOWS.map((value) => ({ value, label: t(`window.${value}`) }))}
              onChange={(value) => change({ window: value === "24h" ? null : value }, { replace: true })}
            />
          )}
          <ButtonLink kind="primary" href={href("/submit")}>
            <Play size={14} aria-hidden />
            {t("submit")}
          </ButtonLink>
        </>
      }
    >
      <div className={styles.home}>
        {(warnings.length > 0 || (isAllKnown && !isFresh)) && <WarningList warnings={warnings} />}
        {found && unread && warnings.length === 0 && (
          <p className={styles.unknown} role="status">
            {t("notAllRead", { why: unread })}
          </p>
        )}
        {overview.error && !found && <ProblemBox problem={overview.error} onRetry={overview.refetch} />}
        {isFresh && <FirstSteps workers={found.workers.alive} />}
        {found && !isFresh && (
          <>
            <Figures overview={found} waits={waits} />
            <div className={styles.columns}>
              <EndedChart overview={found} />
              <Queues overview={found} />
            </div>
            <div className={styles.columns}>
              <FailingFlows overview={found} />
              <OpenQuestions waits={waits} />
            </div>
          </>
        )}
        {!found && !overview.error && <Loading />}
      </div>
    </Page>
  );
}
