/** A run on a narrow screen: two lines instead of columns. */

import { StatusBadge } from "../../ui/status";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { Progress } from "./Progress";
import styles from "./Runs.module.css";
import type { Run } from "./runList";

export function NarrowRow({ run, target }: { run: Run; target: string }) {
  return (
    <>
      <div className={styles.narrowLine}>
        <a href={target} className={styles.flow}>
          <UserText text={run.flow_name} />
        </a>
        <StatusBadge status={run.status} />
      </div>
      <div className={styles.narrowLine}>
        {run.error ? (
          <span className={styles.error}>
            <UserText text={run.error} />
          </span>
        ) : (
          <code>{run.run_id.slice(0, 8)}</code>
        )}
        <span className={styles.narrowEnd}>
          {!run.error && <Progress run={run} />}
          <Ago at={run.updated_at} />
        </span>
      </div>
    </>
  );
}
