/** A run on a narrow screen: two lines instead of columns. */

import { CauseMark } from "../../ui/cause";
import { StatusBadge } from "../../ui/status";
import { Ago, StartsIn } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { startAt } from "./columns";
import { Progress } from "./Progress";
import styles from "./Runs.module.css";
import type { Run } from "./runList";

export function NarrowRow({ run, target }: { run: Run; target: string }) {
  const start = startAt(run);
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
          <span className={styles.narrowStart}>
            <code>{run.run_id.slice(0, 8)}</code>
            {run.cause && run.cause.kind !== "api" && <CauseMark cause={run.cause} tenant={run.tenant_id} />}
          </span>
        )}
        <span className={styles.narrowEnd}>
          {!run.error && <Progress run={run} />}
          {start === null ? <Ago at={run.updated_at} /> : <StartsIn at={start} />}
        </span>
      </div>
    </>
  );
}
