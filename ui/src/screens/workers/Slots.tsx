/** The slots of a worker, and the runs in them. */

import { href, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { joined } from "../../ui/controls";
import { Duration } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import type { RunsById } from "./useWorkers";
import styles from "./Workers.module.css";
import { isOnline, unnamedRuns, type Worker } from "./workers";

// More boxes than this are no more readable than the number.
const MOST_BOXES = 16;
const SHOWN_RUNS = 3;

export function Slots({ worker, runs }: { worker: Worker; runs: RunsById }) {
  const t = useMessages(messages);
  const { slots, slots_busy: busy } = worker;
  if (!isOnline(worker))
    return (
      <div className={styles.slots}>
        {busy > 0 && <LastKnownRuns worker={worker} runs={runs} most={SHOWN_RUNS} />}
      </div>
    );
  return (
    <div className={styles.slots}>
      <span className={styles.slotLine}>
        {slots <= MOST_BOXES && (
          <span className={styles.boxes} aria-hidden>
            {Array.from({ length: slots }, (_, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a slot is nothing but its place.
              <span key={at} className={joined(styles.box, at < busy && styles.busy)} />
            ))}
          </span>
        )}
        <span>{t("slots", { busy, slots })}</span>
      </span>
      {busy === 0 ? (
        <span className={styles.faint}>
          {worker.paused || worker.draining ? t("takesNone") : t("nothingToDo")}
        </span>
      ) : (
        <CurrentRuns worker={worker} runs={runs} most={SHOWN_RUNS} />
      )}
    </div>
  );
}

interface CurrentRunsProps {
  worker: Worker;
  runs: RunsById;
  most?: number;
}

/** Of a worker that is gone: whether they are still executed is not known. */
export function LastKnownRuns(props: CurrentRunsProps) {
  const t = useMessages(messages);
  return (
    <>
      <span className={styles.faint}>{t("lastKnown")}</span>
      <CurrentRuns {...props} />
    </>
  );
}

export function CurrentRuns({ worker, runs, most = Infinity }: CurrentRunsProps) {
  const t = useMessages(messages);
  const ids = worker.current_run_ids;
  const unnamed = unnamedRuns(worker);
  return (
    <ul className={styles.runs}>
      {ids.slice(0, most).map((id) => {
        const run = runs.get(id);
        return (
          <li key={id}>
            <a href={href(pathTo("/runs/:id", { id }))}>
              {run ? <UserText text={run.flow_name} /> : <code>{id.slice(0, 8)}</code>}
            </a>
            {run?.start_time && isOnline(worker) && (
              <span className={styles.faint}>
                <Duration from={run.start_time} />
              </span>
            )}
          </li>
        );
      })}
      {ids.length > most && <li className={styles.faint}>{t("more", { count: ids.length - most })}</li>}
      {unnamed > 0 && <li className={styles.faint}>{t("others", { count: unnamed })}</li>}
    </ul>
  );
}
