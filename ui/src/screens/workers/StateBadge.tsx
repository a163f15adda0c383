/** The state of a worker, as colour, shape and text. */
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
import { toneClass } from "../../ui/status";
import { messages } from "./messages";
import styles from "./Workers.module.css";
import type { Worker } from "./workers";

// The colours of run statuses with a similar meaning.
const LOOKS: Record<Worker["state"], { tone: string; icon: LucideIcon; loud: boolean }> = {
  RUNNING: { tone: "RUNNING", icon: LoaderCircle, loud: true },
  IDLE: { tone: "COMPLETED", icon: CircleDot, loud: false },
  STOPPED_GRACEFUL: { tone: "CANCELLED", icon: Power, loud: false },
  DISCONNECTED: { tone: "FAILED", icon: Unplug, loud: true },
};

export function StateBadge({ state }: { state: Worker["state"] }) {
  const t = useMessages(messages);
  const { tone, icon: Icon, loud } = LOOKS[state];
  return (
    <span className={joined(styles.badge, toneClass(tone), loud && styles.loud)} data-state={state}>
      <Icon size={13} strokeWidth={2.4} aria-hidden />
      {t(`state.${state}`)}
    </span>
  );
}

/** What a reader must know besides the state: an idle worker may be unable to execute anything. */
export function WorkerMarks({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  const marks: [boolean, LucideIcon, string, string][] = [
    [worker.executor_error !== null, CircleAlert, t("executorError"), "FAILED"],
    [worker.draining, LogOut, t("draining"), "CANCELLING"],
    [worker.paused, Pause, t("paused"), "CANCELLING"],
    [worker.hidden, EyeOff, t("hidden"), "CANCELLED"],
  ];
  return marks
    .filter(([is]) => is)
    .map(([, Icon, word, tone]) => (
      <span key={word} className={joined(styles.badge, styles.loud, styles.wish, toneClass(tone))}>
        <Icon size={11} strokeWidth={2.4} aria-hidden />
        {word}
      </span>
    ));
}
