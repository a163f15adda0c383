/** Why a run exists: submitted, or by a schedule, an event, another run. */
import {
  CalendarClock,
  GitBranch,
  type LucideIcon,
  MessageSquareShare,
  RadioTower,
  RotateCcw,
  SquareTerminal,
} from "lucide-react";
import { href, pathTo } from "../app/router";
import { useMessages } from "../i18n/messages";
import { visible } from "../lib/visible";
import { refOf, scheduleHref } from "../schedules/scheduleRef";
import { triggerHref } from "../triggers/triggerRef";
import styles from "./cause.module.css";
import { messages } from "./messages";
import { UserText } from "./UserText";

export interface Cause {
  kind: string;
  id?: string | null;
  /** Of an occurrence of a schedule: its nominal time. */
  at?: number | null;
}

export const CAUSES = ["api", "schedule", "event", "request", "rerun", "parent"] as const;
export type CauseKind = (typeof CAUSES)[number];

const ICONS: Record<CauseKind, LucideIcon> = {
  api: SquareTerminal,
  schedule: CalendarClock,
  event: RadioTower,
  request: MessageSquareShare,
  rerun: RotateCcw,
  parent: GitBranch,
};
const knownKind = (kind: string): CauseKind | undefined => CAUSES.find((each) => each === kind);

export function useCauseText(): (kind: string) => string {
  const t = useMessages(messages);
  return (kind) => {
    const known = knownKind(kind);
    return known ? t(`cause.${known}`) : kind;
  };
}

/** Where the cause is shown; null: it has no page. */
function causeHref({ kind, id }: Cause, tenant?: string | null): string | null {
  if (!id) return null;
  if (kind === "schedule") return scheduleHref(refOf({ schedule_id: id, tenant_id: tenant }));
  if (kind === "event") return triggerHref(id, tenant);
  return kind === "rerun" || kind === "parent" ? href(pathTo("/runs/:id", { id })) : null;
}

/** The cause with a link to it; an operator names the tenant of a schedule. */
export function CauseMark({ cause, tenant }: { cause: Cause; tenant?: string | null }) {
  const word = useCauseText();
  const Icon = ICONS[knownKind(cause.kind) ?? "api"];
  const target = causeHref(cause, tenant);
  const isRun = cause.kind === "rerun" || cause.kind === "parent";
  const name = cause.id ? (isRun ? cause.id.slice(0, 8) : cause.id) : word(cause.kind);
  const title = cause.id ? `${word(cause.kind)} ${visible(cause.id)}` : undefined;
  return (
    <span className={styles.cause} title={title}>
      <Icon size={13} aria-hidden />
      {cause.id && <span className="hidden-visually">{word(cause.kind)}</span>}
      {target ? (
        <a href={target}>
          <UserText text={name} />
        </a>
      ) : (
        <span>
          <UserText text={name} />
        </span>
      )}
    </span>
  );
}
