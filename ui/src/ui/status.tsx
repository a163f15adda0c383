/** The status of a run or a task as colour, shape and word, since colour alone is not accessible. */
import {
  Ban,
  CalendarClock,
  CircleCheck,
  CircleDashed,
  CircleMinus,
  CirclePause,
  CircleX,
  Hourglass,
  LoaderCircle,
  type LucideIcon,
  OctagonMinus,
  Unplug,
} from "lucide-react";
import type { ComponentProps } from "react";
import { useMessages } from "../i18n/messages";
import { joined } from "./controls";
import { messages } from "./messages";
import styles from "./status.module.css";

export const RUN_STATUSES = [
  "SCHEDULED",
  "PENDING",
  "RUNNING",
  "WAITING_HUMAN",
  "WAITING",
  "CANCELLING",
  "COMPLETED",
  "FAILED",
  "CANCELLED",
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];
/** `NOT_RUN`: a task that was still to come when its run ended. `INTERRUPTED`: one whose worker is lost. */
export type Status = RunStatus | "SUCCEEDED" | "NOT_RUN" | "INTERRUPTED";

export const isRunStatus = (word: string): word is RunStatus => RUN_STATUSES.some((each) => each === word);
export const isTerminal = (word: string): boolean => ["COMPLETED", "FAILED", "CANCELLED"].includes(word);

type Tone =
  | "scheduled"
  | "pending"
  | "running"
  | "asking"
  | "waiting"
  | "cancelling"
  | "lost"
  | "completed"
  | "failed"
  | "cancelled";
const LOOKS: Record<Status, { tone: Tone; icon: LucideIcon }> = {
  SCHEDULED: { tone: "scheduled", icon: CalendarClock },
  PENDING: { tone: "pending", icon: CircleDashed },
  RUNNING: { tone: "running", icon: LoaderCircle },
  WAITING_HUMAN: { tone: "asking", icon: CirclePause },
  WAITING: { tone: "waiting", icon: Hourglass },
  CANCELLING: { tone: "cancelling", icon: OctagonMinus },
  COMPLETED: { tone: "completed", icon: CircleCheck },
  SUCCEEDED: { tone: "completed", icon: CircleCheck },
  FAILED: { tone: "failed", icon: CircleX },
  CANCELLED: { tone: "cancelled", icon: Ban },
  NOT_RUN: { tone: "cancelled", icon: CircleMinus },
  INTERRUPTED: { tone: "lost", icon: Unplug },
};
const QUIET: ReadonlySet<string> = new Set([
  "SCHEDULED",
  "PENDING",
  "WAITING",
  "COMPLETED",
  "SUCCEEDED",
  "CANCELLED",
  "NOT_RUN",
]);
const isKnown = (status: string): status is Status => status in LOOKS;

/** The class that sets `--tone` and `--tone-soft` to the colours of a status. */
export const toneClass = (status: string): string =>
  styles[LOOKS[isKnown(status) ? status : "PENDING"].tone] ?? "";

const badgeClass = (status: string): string =>
  joined(styles.badge, toneClass(status), QUIET.has(status) && styles.quiet);

export function useStatusText(): (status: string) => string {
  const t = useMessages(messages);
  return (status) => (isKnown(status) ? t(`status.${status}`) : status);
}

export function StatusIcon({ status, size = 13 }: { status: string; size?: number }) {
  const Icon = LOOKS[isKnown(status) ? status : "PENDING"].icon;
  return (
    <Icon
      size={size}
      strokeWidth={2.4}
      aria-hidden
      className={status === "RUNNING" ? styles.turning : undefined}
    />
  );
}

interface LikeStatusBadgeProps extends ComponentProps<"span"> {
  /** The run status with a similar meaning. */
  like: Status;
  icon: LucideIcon;
}

/** The state of something else than a run, in the colours of a run status. */
export function LikeStatusBadge({ like, icon: Icon, children, ...attributes }: LikeStatusBadgeProps) {
  return (
    <span className={badgeClass(like)} {...attributes}>
      <Icon size={13} strokeWidth={2.4} aria-hidden />
      {children}
    </span>
  );
}

interface StatusBadgeProps {
  status: string;
  /** The lost worker of a run that no worker executes. */
  lostWorker?: string | null;
}

export function StatusBadge({ status, lostWorker = null }: StatusBadgeProps) {
  const t = useMessages(messages);
  const word = useStatusText();
  if (lostWorker !== null)
    return (
      <span
        className={joined(styles.badge, styles.lost)}
        data-status={status}
        data-lost
        title={t("lostBy", { worker: lostWorker })}
      >
        <Unplug size={13} strokeWidth={2.4} aria-hidden />
        {t("lost")}
      </span>
    );
  return (
    <span className={badgeClass(status)} data-status={status}>
      <StatusIcon status={status} />
      {word(status)}
    </span>
  );
}
