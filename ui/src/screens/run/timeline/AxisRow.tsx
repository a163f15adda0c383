/** The scale above the rows: ticks, and the gaps, which can be expanded. */
import { CalendarClock, Hourglass, type LucideIcon, Moon, Pause } from "lucide-react";
import type { Ref } from "react";
import { useMessages } from "../../../i18n/messages";
import { duration } from "../../../i18n/time";
import { joined } from "../../../ui/controls";
import { type Gap, type GapKind, lasting, type Piece } from "./axis";
import { messages } from "./messages";
import { place, type Scale, type Tick } from "./scale";
import styles from "./Timeline.module.css";

const ICONS: Record<GapKind, LucideIcon> = {
  delay: CalendarClock,
  queue: Hourglass,
  wait: Moon,
  idle: Pause,
};
const CHARACTER_PX = 6.6;
const LABEL_GAP_PX = 10;
// An expanded gap needs this much for its label.
const ROOM_FOR_LABEL_PX = 40;
const ROOM_FOR_ICON_PX = 72;
const ROOM_FOR_WORDS_PX = 150;

interface AxisRowProps {
  ref: Ref<HTMLDivElement>;
  scale: Scale;
  ticks: readonly Tick[];
  /** In pixels. */
  width: number;
  scrolls: boolean;
  /** What the clock of the page says, while the run goes on. */
  told: number | null;
  onToggle: (gap: Gap, collapsed: boolean) => void;
}

export function AxisRow({ ref, scale, ticks, width, scrolls, told, onToggle }: AxisRowProps) {
  const t = useMessages(messages);
  // Also while they are outside of the visible part: the rows must not move.
  const hasGaps = scale.axis.pieces.some(
    ({ gap, left, right }) => gap && (right - left) * width >= ROOM_FOR_LABEL_PX,
  );
  const gaps = scale.axis.pieces.flatMap((piece) => shownGap(piece, scale, width));
  return (
    <>
      <div className={joined(styles.head, scrolls && styles.scrolls)} aria-hidden>
        <span />
        <div ref={ref} className={styles.axis}>
          {withRoom(ticks, width).map(({ left, label }) => (
            <span key={left} style={{ left: `${left}%` }}>
              {label}
            </span>
          ))}
        </div>
      </div>
      {hasGaps && (
        <div className={joined(styles.gapRow, scrolls && styles.scrolls)}>
          <span />
          <ul className={styles.gaps} aria-label={t("gaps")}>
            {gaps.map(({ gap, collapsed, left, right }) => {
              const Icon = ICONS[gap.kind];
              const isOpen = gap.to >= scale.axis.to;
              const time = duration(lasting(gap.from, gap.to, isOpen ? told : null));
              // "59m" of "59m 40s".
              const rough = /^[\d.]+[^\d\s]+/.exec(time)?.[0] ?? time;
              const words = t(`gap.${gap.kind}`, { time });
              const pixels = ((right - left) / 100) * width;
              return (
                <li key={gap.key} style={{ left: `${left}%`, width: `${right - left}%` }}>
                  <button
                    type="button"
                    data-gap={gap.kind}
                    aria-expanded={!collapsed}
                    aria-label={words}
                    title={t(collapsed ? "expand" : "collapse", { gap: words })}
                    className={joined(styles.gapButton, collapsed && styles.collapsed)}
                    onClick={() => onToggle(gap, !collapsed)}
                  >
                    {pixels > ROOM_FOR_ICON_PX && <Icon size={11} aria-hidden />}
                    <span>
                      {pixels > ROOM_FOR_WORDS_PX ? words : pixels > ROOM_FOR_ICON_PX ? time : rough}
                    </span>
                  </button>
                </li>
              );
            })}
          </ul>
        </div>
      )}
    </>
  );
}

interface ShownGap {
  gap: Gap;
  collapsed: boolean;
  left: number;
  right: number;
}

function shownGap({ gap, collapsed, from, to }: Piece, scale: Scale, width: number): ShownGap[] {
  if (!gap) return [];
  const left = Math.max(place(from, scale), 0);
  const right = Math.min(place(to, scale), 100);
  return ((right - left) / 100) * width >= ROOM_FOR_LABEL_PX ? [{ gap, collapsed, left, right }] : [];
}

/** The ticks whose labels overlap no other, and are not cut at the end. */
function withRoom(ticks: readonly Tick[], width: number): Tick[] {
  let free = 0;
  return ticks.filter(({ left, label }) => {
    const begin = (left / 100) * width;
    const end = begin + label.length * CHARACTER_PX;
    if (begin < free - 1 || end > width) return false;
    free = end + LABEL_GAP_PX;
    return true;
  });
}
