import { CalendarCheck2, CalendarOff, CirclePause } from "lucide-react";
import { useMessages } from "../i18n/messages";
import { badgeClass } from "../ui/status";
import { messages } from "./messages";

// The colours of run statuses with a similar meaning.
const LOOKS = {
  active: { icon: CalendarCheck2, status: "COMPLETED" },
  paused: { icon: CirclePause, status: "CANCELLING" },
  ended: { icon: CalendarOff, status: "CANCELLED" },
};

/** Whether a schedule starts runs. `ended`: it has no further occurrence. */
export function StateBadge({ paused, ended }: { paused: boolean; ended: boolean }) {
  const t = useMessages(messages);
  const state = paused ? "paused" : ended ? "ended" : "active";
  const { icon: Icon, status } = LOOKS[state];
  return (
    <span className={badgeClass(status)} data-schedule-state={state}>
      <Icon size={13} strokeWidth={2.4} aria-hidden />
      {t(state)}
    </span>
  );
}
