import { useMessages } from "../../i18n/messages";
import { joined } from "../../ui/controls";
import { isTerminal, toneClass } from "../../ui/status";
import { messages } from "./messages";
import styles from "./Runs.module.css";
import type { Run } from "./runList";

/** The share of finished tasks. */
export function Progress({ run }: { run: Run }) {
  const t = useMessages(messages);
  const { tasks_over: over, tasks_total: total } = run;
  if (!total) return null;
  return (
    <span className={joined(styles.progress, toneClass(run.status))} title={t("tasksOf", { over, total })}>
      <span className={joined(styles.track, isTerminal(run.status) && styles.ended)} aria-hidden>
        <span className={styles.filled} style={{ width: `${(100 * over) / total}%` }} />
      </span>
      <span>
        {over}/{total}
      </span>
    </span>
  );
}
