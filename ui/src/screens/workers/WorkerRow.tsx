/** One worker: state, slots, runs, last heartbeat. */

import { ChevronRight, CircleAlert, Package, PackageX } from "lucide-react";
import { useId } from "react";
import { version as gatewayVersion } from "../../app/pageConfig";
import { useMessages } from "../../i18n/messages";
import { joined } from "../../ui/controls";
import { Tags } from "../../ui/Tags";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import { Load } from "./Resources";
import { Slots } from "./Slots";
import type { RunsById } from "./useWorkers";
import { WorkerActions } from "./WorkerActions";
import { WorkerMarks, WorkerStateBadge } from "./WorkerBadges";
import { WorkerDetails } from "./WorkerDetails";
import styles from "./Workers.module.css";
import { hasStopped, isOnline, type Worker } from "./workers";

interface RowProps {
  worker: Worker;
  runs: RunsById;
  open: boolean;
  onToggle: (open: boolean) => void;
}

export function WorkerRow({ worker, runs, open, onToggle }: RowProps) {
  const details = useId();
  return (
    <li
      className={joined(styles.worker, open && styles.open, !isOnline(worker) && styles.away)}
      data-worker={worker.worker_id}
    >
      <div className={styles.row}>
        <div className={styles.state}>
          <WorkerStateBadge state={worker.state} />
        </div>
        <div className={styles.who}>
          <h2 className={styles.name}>
            <button
              type="button"
              data-row
              aria-expanded={open}
              aria-controls={open ? details : undefined}
              onClick={() => onToggle(!open)}
            >
              <UserText text={worker.worker_id} />
              <ChevronRight size={14} aria-hidden />
            </button>
          </h2>
          <div className={styles.marks}>
            <WorkerMarks worker={worker} />
            <Tags tags={worker.tags} />
          </div>
          <OtherVersion worker={worker} />
        </div>
        <Slots worker={worker} runs={runs} />
        <Moments worker={worker} />
        <Load worker={worker} />
        <Wheels sync={worker.wheel_sync} />
        <WorkerActions worker={worker} />
      </div>
      {open && (
        <div id={details}>
          <WorkerDetails worker={worker} runs={runs} />
        </div>
      )}
    </li>
  );
}

function OtherVersion({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  if (!isOnline(worker) || worker.version === gatewayVersion) return null;
  return (
    <p className={styles.otherVersion}>
      <CircleAlert size={12} aria-hidden />
      {t("otherVersion", { version: worker.version, gateway: gatewayVersion })}
    </p>
  );
}

function Moments({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  return (
    <dl className={styles.moments}>
      <dt>{t("progress")}</dt>
      <dd>{worker.last_progress_at ? <Ago at={worker.last_progress_at} /> : t("noProgress")}</dd>
      <dt>{hasStopped(worker) ? t("stoppedAt") : t("seen")}</dt>
      <dd className={joined(worker.state === "DISCONNECTED" && styles.lost)}>
        <Ago at={hasStopped(worker) ? (worker.stopped_at ?? worker.last_seen_at) : worker.last_seen_at} />
      </dd>
    </dl>
  );
}

function Wheels({ sync }: { sync: Worker["wheel_sync"] }) {
  const t = useMessages(messages);
  const failed = sync.last_result === "error";
  const count = sync.installed_wheels.length;
  const Icon = failed ? PackageX : Package;
  const word = failed
    ? t("wheelsFailed")
    : !sync.enabled
      ? t("wheelsOff")
      : count === 0
        ? t("wheelsNone")
        : t("wheelsInstalled", { count });
  return (
    <div className={joined(styles.wheels, failed && styles.failed, !sync.enabled && styles.faint)}>
      <span className={styles.wheelWord}>
        <Icon size={14} aria-hidden className={styles.wheelIcon} />
        {word}
      </span>
      {sync.skipped_incompatible_count > 0 && (
        <span className={styles.faint}>{t("wheelsSkipped", { count: sync.skipped_incompatible_count })}</span>
      )}
    </div>
  );
}
