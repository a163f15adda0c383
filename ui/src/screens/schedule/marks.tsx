/** Shape and colour of what became of an occurrence. */
import { CalendarClock, CircleSlash2, Hourglass, Play } from "lucide-react";
import { StatusIcon, toneClass } from "../../ui/status";
import styles from "./Schedule.module.css";

const OWN = { coming: CalendarClock, skipped: CircleSlash2, buffered: Hourglass, started: Play };
const isOwn = (mark: string): mark is keyof typeof OWN => mark in OWN;

export function MarkIcon({ mark, size = 12 }: { mark: string; size?: number }) {
  if (!isOwn(mark)) return <StatusIcon status={mark} size={size} />;
  const Icon = OWN[mark];
  return <Icon size={size} strokeWidth={2.4} aria-hidden />;
}

/** The class that sets `--tone` to the colour of a mark. */
export const markClass = (mark: string): string => (isOwn(mark) ? (styles[mark] ?? "") : toneClass(mark));
