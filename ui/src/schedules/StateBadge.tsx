import { CalendarCheck2, CalendarOff, CirclePause } from "lucide-react";
import { useMessages } from "../i18n/messages";
import { joined } from "../ui/controls";
import { messages } from "./messages";
import styles from "./Schedules.module.css";

const ICONS = { active: CalendarCheck2, paused: CirclePause, ended: CalendarOff };

/** Whether a schedule starts runs. `ended`: it has no further occurrence. */
export function StateBadge({ paused, ended }: { paused: boolean; ended: boolean }) {
  const t = useMessages(messages);
  const state = paused ? "paused" : ended ? "ended" : "active";
  const Icon = ICONS[state];
  return (
    <span className={joined(styles.state, styles[state])} data-schedule-state={state}>
      <Icon size={13} strokeWidth={2.4} aria-hidden />
      {t(state)}
    </span>
  );
}
