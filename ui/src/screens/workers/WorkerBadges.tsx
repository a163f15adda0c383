/** The state of a worker and its marks, as colour, shape and text. */
import {
  CircleAlert,
  CircleDot,
  EyeOff,
  LoaderCircle,
  LogOut,
  type LucideIcon,
  Pause,
  Power,
  Unplug,
} from "lucide-react";
import { useMessages } from "../../i18n/messages";
import { joined } from "../../ui/controls";
import { LikeStatusBadge, type Status, toneClass } from "../../ui/status";
import { messages } from "./messages";
import styles from "./Workers.module.css";
import type { Worker } from "./workers";

const LOOKS: Record<Worker["state"], { like: Status; icon: LucideIcon }> = {
  RUNNING: { like: "RUNNING", icon: LoaderCircle },
  IDLE: { like: "COMPLETED", icon: CircleDot },
  STOPPED_GRACEFUL: { like: "CANCELLED", icon: Power },
  DISCONNECTED: { like: "FAILED", icon: Unplug },
};

export function WorkerStateBadge({ state }: { state: Worker["state"] }) {
  const t = useMessages(messages);
  return (
    <LikeStatusBadge {...LOOKS[state]} data-state={state}>
      {t(`state.${state}`)}
    </LikeStatusBadge>
  );
}

/** What a reader must know besides the state: an idle worker may be unable to execute anything. */
export function WorkerMarks({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  const marks: [boolean, LucideIcon, string, Status][] = [
    [worker.executor_error !== null, CircleAlert, t("executorError"), "FAILED"],
    [worker.draining, LogOut, t("draining"), "CANCELLING"],
    [worker.paused, Pause, t("paused"), "CANCELLING"],
    [worker.hidden, EyeOff, t("hidden"), "CANCELLED"],
  ];
  return marks
    .filter(([is]) => is)
    .map(([, Icon, word, like]) => (
      <span key={word} className={joined(styles.mark, toneClass(like))}>
        <Icon size={11} strokeWidth={2.4} aria-hidden />
        {word}
      </span>
    ));
}
