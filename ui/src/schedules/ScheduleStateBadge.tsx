import { CalendarCheck2, CalendarOff, CirclePause, type LucideIcon } from "lucide-react";
import { useMessages } from "../i18n/messages";
import { LikeStatusBadge, type Status } from "../ui/status";
import { messages } from "./messages";

const LOOKS: Record<"active" | "paused" | "ended", { like: Status; icon: LucideIcon }> = {
  active: { like: "COMPLETED", icon: CalendarCheck2 },
  paused: { like: "CANCELLING", icon: CirclePause },
  ended: { like: "CANCELLED", icon: CalendarOff },
};

/** Whether a schedule starts runs. `ended`: it has no further occurrence. */
export function ScheduleStateBadge({ paused, ended }: { paused: boolean; ended: boolean }) {
  const t = useMessages(messages);
  const state = paused ? "paused" : ended ? "ended" : "active";
  return (
    <LikeStatusBadge {...LOOKS[state]} data-schedule-state={state}>
      {t(state)}
    </LikeStatusBadge>
  );
}
