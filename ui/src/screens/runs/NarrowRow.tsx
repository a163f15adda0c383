/** A run on a narrow screen: two lines instead of columns. */

import { CauseMark } from "../../ui/cause";
import { RunStatusBadge } from "../../ui/lostRuns";
import { Ago, StartsIn } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { ErrorText, FirstLabel, Params, Question, startAt } from "./columns";
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
        <RunStatusBadge run={run} />
      </div>
      <div className={styles.narrowLine}>
        {run.error || run.wait_message ? (
          <span className={styles.narrowStart}>
            {run.error ? <ErrorText run={run} /> : <Question run={run} />}
          </span>
        ) : (
          <span className={styles.narrowStart}>
            <code>{run.run_id.slice(0, 8)}</code>
            <Params run={run} />
            <FirstLabel run={run} />
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
