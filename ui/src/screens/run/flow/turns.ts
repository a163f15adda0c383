/** Lines that go on in another row. Those of different tasks keep apart, or each would seem to lead to the tasks of both. */
import type { Point } from "./view";

export interface Turn {
  from: string;
  to: string;
  /** On the right side of the one task, and on the left side of the other. */
  begin: Point;
  end: Point;
  /** The middle of the gap above the row it enters. */
  gap: number;
}

// Between two lines.
const LANE = 6;
// All lanes together; the gap between two columns has no more room.
const MAX_LANES_WIDTH = 24;
const CORNER = 8;

export interface Lanes {
  /** How far a line of this task is off the middle of gaps, to the right and down. */
  offset: (from: string) => number;
  /** How much room they need in a gap between rows, in addition to one line. */
  width: number;
}

/** Where lines of two tasks would lie on each other, they get lanes of their own. */
export function lanesOf(turns: readonly Turn[], columnGap: number): Lanes {
  const sources = new Map<string, Turn[]>();
  // In this order lines cross least: what leaves further left, or lower, turns first.
  for (const turn of turns.toSorted((a, b) => a.begin.x - b.begin.x || b.begin.y - a.begin.y))
    sources.set(turn.from, [...(sources.get(turn.from) ?? []), turn]);
  const found: { from: string; parts: Part[]; lane: number }[] = [];
  for (const [from, own] of sources) {
    const parts = own.flatMap((turn) => partsOf(cornersOf(turn, columnGap)));
    const beside = found.filter((each) => each.parts.some((one) => parts.some((other) => meet(one, other))));
    found.push({ from, parts, lane: Math.max(-1, ...beside.map(({ lane }) => lane)) + 1 });
  }
  const last = Math.max(0, ...found.map(({ lane }) => lane));
  const step = Math.min(LANE, MAX_LANES_WIDTH / Math.max(last, 1));
  const offsets = new Map(found.map(({ from, lane }) => [from, (lane - last / 2) * step]));
  return { offset: (from) => offsets.get(from) ?? 0, width: last * step };
}

/** Down beside the column of its task, along the gap above the row, and down to the other task. */
export const turnPath = (turn: Turn, columnGap: number, offset: number): string =>
  rounded(cornersOf(turn, columnGap, offset));

function cornersOf({ begin, end, gap }: Turn, columnGap: number, offset = 0): Point[] {
  const right = begin.x + columnGap / 2 + offset;
  const left = end.x - columnGap / 2 + offset;
  const along = gap + offset;
  return [
    begin,
    { x: right, y: begin.y },
    { x: right, y: along },
    { x: left, y: along },
    { x: left, y: end.y },
    end,
  ];
}

interface Part {
  isVertical: boolean;
  /** Its x if it is vertical, else its y. */
  at: number;
  first: number;
  last: number;
}

/** Without the ends at the tasks: lines to one task meet there. */
function partsOf(corners: readonly Point[]): Part[] {
  return corners.slice(1, -2).map((point, index) => {
    const next = corners[index + 2] ?? point;
    const isVertical = point.x === next.x;
    const [one, other] = isVertical ? [point.y, next.y] : [point.x, next.x];
    return {
      isVertical,
      at: isVertical ? point.x : point.y,
      first: Math.min(one, other),
      last: Math.max(one, other),
    };
  });
}

const meet = (one: Part, other: Part): boolean =>
  one.isVertical === other.isVertical &&
  Math.abs(one.at - other.at) < LANE &&
  one.first < other.last + LANE &&
  other.first < one.last + LANE;

/** Straight lines with rounded corners. */
function rounded(points: readonly Point[]): string {
  let path = "";
  points.forEach((point, index) => {
    const [before, after] = [points[index - 1], points[index + 1]];
    if (!before) path += `M${point.x},${point.y}`;
    else if (!after) path += `L${point.x},${point.y}`;
    else {
      const [into, out] = [near(point, before), near(point, after)];
      path += `L${into.x},${into.y}Q${point.x},${point.y} ${out.x},${out.y}`;
    }
  });
  return path;
}

/** A short way from a corner towards another one. */
function near(corner: Point, other: Point): Point {
  const way = Math.hypot(other.x - corner.x, other.y - corner.y);
  const part = way === 0 ? 0 : Math.min(CORNER, way / 2) / way;
  return { x: corner.x + (other.x - corner.x) * part, y: corner.y + (other.y - corner.y) * part };
}
