/** The visible part of the axis: zoom, movement, places in percent, and ticks. */
import { interval } from "../../../i18n/time";
import { type Axis, momentAt, positionAt } from "./axis";

/** A part of the axis, each from 0 to 1. */
export interface Window {
  left: number;
  right: number;
}
/** Moments; null is the beginning or the end of the axis, which moves while a run executes. */
export interface View {
  from: number | null;
  to: number | null;
}
export interface Scale extends Window {
  axis: Axis;
}

export const WHOLE: View = { from: null, to: null };
const SHORTEST_SEC = 0.001;
const SMALLEST = 1e-7;

export function scaleOf(axis: Axis, { from, to }: View): Scale {
  const left = from === null ? 0 : positionAt(axis, from);
  const right = to === null ? 1 : positionAt(axis, to);
  const least = smallest(axis);
  return right - left >= least / 2 ? { axis, left, right } : { axis, ...shifted(left, least) };
}

/** Larger by the factor, with what is at the anchor (0 to 1) in place. */
export function zoomed(scale: Scale, factor: number, anchor: number): View {
  const size = Math.min(1, Math.max((scale.right - scale.left) / factor, smallest(scale.axis)));
  const fixed = scale.left + anchor * (scale.right - scale.left);
  return viewOf(scale.axis, shifted(fixed - anchor * size, size));
}

/** Moved by a share of what is visible. */
export function moved(scale: Scale, share: number): View {
  const size = scale.right - scale.left;
  return viewOf(scale.axis, shifted(scale.left + share * size, size));
}

export const isWhole = ({ from, to }: View): boolean => from === null && to === null;

const smallest = ({ secondsPerUnit }: Axis): number =>
  Math.min(1, Math.max(SHORTEST_SEC / secondsPerUnit, SMALLEST));

function shifted(left: number, size: number): Window {
  const begin = Math.min(Math.max(left, 0), 1 - size);
  return { left: begin, right: begin + size };
}

const ALMOST = 1e-9;
const viewOf = (axis: Axis, { left, right }: Window): View => ({
  from: left <= ALMOST ? null : momentAt(axis, left),
  to: right >= 1 - ALMOST ? null : momentAt(axis, right),
});

/** The place of a moment in percent of the visible part; outside of it below 0 or above 100. */
export const place = (at: number, { axis, left, right }: Scale): number =>
  (100 * (positionAt(axis, at) - left)) / (right - left);

/** The visible part of a period in percent; null if it has none. */
export function visiblePart(
  from: number,
  to: number,
  scale: Scale,
): { left: number; width: number; right: number } | null {
  const [begin, end] = [place(from, scale), place(to, scale)];
  if (end < 0 || begin > 100) return null;
  // A little outside, so that the rounded ends are hidden.
  const [left, right] = [Math.max(begin, -1), Math.min(end, 101)];
  return { left, width: right - left, right };
}

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
  3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000,
];
const MAX_TICKS = 50;

export interface Tick {
  /** In percent. */
  left: number;
  label: string;
}

/** Round times since the submission; `most` of them if nothing is collapsed. */
export function ticksOf(scale: Scale, most: number): Tick[] {
  const { axis, left, right } = scale;
  const parts = axis.pieces
    .filter((piece) => !piece.collapsed && piece.right > left && piece.left < right)
    .map((piece) => ({
      from: momentAt(axis, Math.max(piece.left, left)) - axis.from,
      to: momentAt(axis, Math.min(piece.right, right)) - axis.from,
    }));
  const perStep = ((right - left) * axis.secondsPerUnit) / most;
  const step = STEPS.find((each) => each >= perStep) ?? STEPS.at(-1) ?? 1;
  return parts.flatMap(({ from, to }) => {
    const first = Math.ceil((from - step * 1e-6) / step);
    const count = Math.min(Math.floor((to + step * 1e-6) / step) - first + 1, MAX_TICKS);
    return Array.from({ length: Math.max(count, 0) }, (_, index) => {
      const elapsed = (first + index) * step;
      return { left: place(axis.from + elapsed, scale), label: labelOf(elapsed, index * step) };
    });
  });
}

/** Since the submission; if that is long, only the first of neighbours is in full. */
function labelOf(elapsed: number, sinceFirst: number): string {
  const full = interval(elapsed);
  const isLong = full.length > LONG_LABEL && sinceFirst > 0;
  return isLong ? `+${interval(sinceFirst)}` : full;
}
const LONG_LABEL = 7;
