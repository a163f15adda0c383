/** Names the runs that an action will touch. */
import { useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { StatusBadge } from "../../ui/status";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import styles from "./BulkDialog.module.css";
import { messages } from "./messages";
import { readPage } from "./pages";
import type { Run } from "./runList";
import { byFlow } from "./touched";

const SHOWN = 5;
const FLOWS = 6;

interface TouchedRunsProps {
  runs: readonly Run[];
  /** All that are touched, of which `runs` may be the first. */
  count: number;
}

export function TouchedRuns({ runs, count }: TouchedRunsProps) {
  const t = useMessages(messages);
  const flows = byFlow(runs);
  return (
    <div className={styles.touched}>
      <p>
        {count > runs.length && `${t("firstOfThem", { count: runs.length })} `}
        {flows.slice(0, FLOWS).map(([flow, number]) => (
          <span key={flow} className={styles.flow}>
            <UserText text={flow} /> ×{number}
          </span>
        ))}
        {flows.length > FLOWS && t("moreFlows", { count: flows.length - FLOWS })}
      </p>
      <ul>
        {runs.slice(0, SHOWN).map((run) => (
          <li key={run.run_id} data-touched={run.run_id}>
            <StatusBadge status={run.status} />
            <strong>
              <UserText text={run.flow_name} />
            </strong>
            <code>{run.run_id.slice(0, 8)}</code>
            <span className={styles.soft}>
              {t("submittedAgo")} <Ago at={run.submitted_at} />
            </span>
          </li>
        ))}
      </ul>
      {count > SHOWN && <p className={styles.soft}>{t("andMore", { count: count - SHOWN })}</p>}
    </div>
  );
}

/** The first of the runs that match a filter. */
export function useTouched(filter: string): readonly Run[] {
  const read = async (signal: AbortSignal) => {
    const { page } = await readPage(filter, { sort: "submitted_at", ascending: false }, null, signal);
    return { data: page.items };
  };
  return useRead(["runs", "touched", filter], read).data ?? [];
}
