/** The axis of the timeline: from the submission to the end, with gaps in which nothing executes.
 *
 * A gap that would leave little room for the rest is collapsed to a fixed width.
 */
import type { Run } from "../run";
import type { Row } from "./bars";

export type GapKind = "delay" | "queue" | "wait" | "idle";
interface Period {
  from: number;
  to: number;
}
export interface Gap extends Period {
  key: string;
  kind: GapKind;
}
/** A part of the axis, from 0 to 1. All parts but collapsed gaps have the same scale. */
export interface Piece extends Period {
  left: number;
  right: number;
  gap: Gap | null;
  collapsed: boolean;
}
export interface Axis extends Period {
  pieces: readonly Piece[];
  /** Seconds per unit of the axis, outside of collapsed gaps. */
  secondsPerUnit: number;
}

// A shorter one is no gap of its own: nothing is gained by collapsing it.
const SHORTEST_SHARE = 0.04;
const SHORTEST_AXIS_SEC = 0.02;
// Between two tasks; less is the work of the executor.
const SHORTEST_IDLE_SEC = 1;
const ROUNDING_SEC = 1e-5;
const COLLAPSED_PX = 84;
// Of all collapsed gaps together.
const MOST_COLLAPSED = 0.5;
// On the right. A run that executes gets more, so that the scale does not jump.
const ROOM = 0.01;
const ROOM_WHILE_RUNNING = 0.07;

/** When it came into the queue: at its submission, or later if it had a start time. */
export const queuedAt = (run: Run): number | null =>
  run.submitted_at == null ? null : Math.max(run.submitted_at, run.start_at ?? 0);

/** Seconds from a moment to the end; in whole seconds of the page's clock while that has not come. */
export const lasting = (from: number, end: number, told: number | null): number =>
  Math.max(0, told === null ? end - from : Math.floor(told - from));

/** When nothing executed: before the start, and between the tasks. In order. */
export function gapsOf(run: Run, rows: readonly Row[], now: number): Gap[] {
  const end = run.end_time ?? now;
  const queued = queuedAt(run);
  const began = run.start_time ?? end;
  const before: Gap[] = [];
  const add = (kind: GapKind, from: number, to: number) => {
    if (to > from) before.push({ key: kind, kind, from, to });
  };
  if (run.submitted_at != null && queued !== null) {
    add("delay", run.submitted_at, Math.min(queued, began));
    add("queue", queued, began);
  }
  if (run.start_time == null) return before;
  const waits = merged(rows.flatMap(({ spans }) => spans.map(({ from, to }) => ({ from, to: to ?? end }))));
  const idle = outside(busyPeriods(rows, end), { from: run.start_time, to: end }).filter(
    (each) => each.to - each.from >= SHORTEST_IDLE_SEC,
  );
  return [
    ...before,
    ...idle.map((each): Gap => {
      const waited = length(within(waits, each));
      const kind = waited > (each.to - each.from) / 2 ? "wait" : "idle";
      return { key: `${kind} ${each.from.toFixed(3)}`, kind, ...each };
    }),
  ];
}

/** When tasks executed, without their sleeps and waits. */
function busyPeriods(rows: readonly Row[], end: number): Period[] {
  return merged(
    rows.flatMap(({ bars, spans }) => {
      const parked = merged(spans.map(({ from, to }) => ({ from, to: to ?? end })));
      return bars.flatMap(({ from, to }) => outside(parked, { from, to: to ?? end }));
    }),
  );
}

interface AxisOptions {
  now: number;
  /** In pixels. */
  width: number;
  /** What the user has chosen, by the key of the gap. */
  chosen: ReadonlyMap<string, boolean>;
}

export function axisOf(run: Run, rows: readonly Row[], { now, width, chosen }: AxisOptions): Axis {
  const from = run.submitted_at ?? run.start_time ?? run.updated_at;
  const to = Math.max(run.end_time ?? now, from + SHORTEST_AXIS_SEC);
  const { gaps, squeezing } = longGaps(gapsOf(run, rows, now), to - from);
  const isCollapsed = ({ key }: Gap) => chosen.get(key) ?? squeezing.has(key);
  const collapsed = new Set(gaps.filter(isCollapsed).map(({ key }) => key));
  const parts = partsOf({ from, to }, gaps);
  const usable = 1 - (run.end_time == null ? ROOM_WHILE_RUNNING : ROOM);
  const shared = Math.min((COLLAPSED_PX / Math.max(width, 1)) * collapsed.size, MOST_COLLAPSED * usable);
  const seconds = length(parts.filter(({ gap }) => !gap || !collapsed.has(gap.key)));
  // If everything is collapsed, gaps share the whole width.
  const perGap = collapsed.size === 0 ? 0 : (seconds > 0 ? shared : usable) / collapsed.size;
  const perSecond = seconds > 0 ? (usable - perGap * collapsed.size) / seconds : 0;
  let left = 0;
  const pieces = parts.map((part): Piece => {
    const isNarrow = part.gap !== null && collapsed.has(part.gap.key);
    const right = left + (isNarrow ? perGap : (part.to - part.from) * perSecond);
    const piece = { ...part, left, right, collapsed: isNarrow };
    left = right;
    return piece;
  });
  return { from, to, pieces, secondsPerUnit: perSecond > 0 ? 1 / perSecond : to - from };
}

/** The gaps that are long for what remains without the longer ones; and those that would squeeze the rest. */
function longGaps(all: readonly Gap[], total: number): { gaps: Gap[]; squeezing: ReadonlySet<string> } {
  const sorted = [...all].sort((a, b) => b.to - b.from - (a.to - a.from));
  let rest = total;
  const long = sorted.filter((gap) => {
    const isLong = gap.to - gap.from >= SHORTEST_SHARE * rest;
    if (isLong) rest -= gap.to - gap.from;
    return isLong;
  });
  // Before the first task there is nothing to make room for.
  const hasTasks = rest > ROUNDING_SEC;
  let open = length(long);
  const squeezing = long.filter((gap) => {
    const isTooMuch = hasTasks && open > rest;
    if (isTooMuch) open -= gap.to - gap.from;
    return isTooMuch;
  });
  return {
    gaps: long.sort((a, b) => a.from - b.from),
    squeezing: new Set(squeezing.map(({ key }) => key)),
  };
}

function partsOf({ from, to }: Period, gaps: readonly Gap[]): (Period & { gap: Gap | null })[] {
  const parts: (Period & { gap: Gap | null })[] = [];
  let at = from;
  for (const gap of gaps) {
    if (gap.from > at) parts.push({ from: at, to: gap.from, gap: null });
    parts.push({ from: gap.from, to: gap.to, gap });
    at = gap.to;
  }
  if (to > at) parts.push({ from: at, to, gap: null });
  return parts;
}

/** The place of a moment on the axis, from 0 to 1. */
export function positionAt({ pieces, from }: Axis, at: number): number {
  if (at <= from) return 0;
  const piece = pieces.find((each) => at <= each.to);
  if (!piece) return pieces.at(-1)?.right ?? 0;
  const share = piece.to > piece.from ? (at - piece.from) / (piece.to - piece.from) : 1;
  return piece.left + Math.max(0, share) * (piece.right - piece.left);
}

/** The moment at a place of the axis. */
export function momentAt({ pieces, from, to }: Axis, position: number): number {
  if (position <= 0) return from;
  const piece = pieces.find((each) => position <= each.right);
  if (!piece) return to;
  const width = piece.right - piece.left;
  const share = width > 0 ? (position - piece.left) / width : 1;
  return piece.from + share * (piece.to - piece.from);
}

/** Sorted, and without overlaps. */
function merged(periods: readonly Period[]): Period[] {
  const found: Period[] = [];
  for (const { from, to } of [...periods].sort((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else found.push({ from, to });
  }
  return found;
}

/** The parts of a period that are in none of the others, which are merged. */
function outside(others: readonly Period[], { from, to }: Period): Period[] {
  const found: Period[] = [];
  let at = from;
  for (const other of within(others, { from, to })) {
    if (other.from > at) found.push({ from: at, to: other.from });
    at = Math.max(at, other.to);
  }
  if (to > at) found.push({ from: at, to });
  return found;
}

const within = (others: readonly Period[], { from, to }: Period): Period[] =>
  others
    .filter((other) => other.to >= from && other.from <= to)
    .map((other) => ({ from: Math.max(other.from, from), to: Math.min(other.to, to) }));

const length = (periods: readonly Period[]): number =>
  periods.reduce((sum, each) => sum + each.to - each.from, 0);
