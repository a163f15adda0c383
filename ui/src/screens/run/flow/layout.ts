/** The layout of a graph from left to right; a graph that is too wide continues in another row. */
import { Graph, layout } from "@dagrejs/dagre";
import type { Item } from "./groups";
import { isGroup, sharedBeginning } from "./groups";
import { lanesOf, type Turn, turnPath } from "./turns";
import { type Point, type Size, scaleFor } from "./view";

export const NODE_HEIGHT = 36;
export const GROUP_HEIGHT = 54;
const NARROWEST = 96;
const WIDEST = 196;
const NARROWEST_GROUP = 150;
// The icon and its padding.
const BESIDE_NAME = 54;
const LETTER = 7.4;
const MARGIN = 12;
const COLUMN_GAP = 36;
const ROW_GAP = 30;
// One row is easier to follow than several, until it gets too small.
const READABLE_ROW = 0.75;
const COMFORTABLE = 0.92;
// The arrow head is at the end of the edge.
const ARROW = 2;
// Above this, a better order takes too long.
const CAREFUL = 60;

export interface Placed {
  id: string;
  x: number;
  y: number;
  height: number;
  row: number;
}
export interface Line {
  from: string;
  to: string;
  path: string;
}
export interface Layout extends Size {
  nodeWidth: number;
  nodes: Placed[];
  lines: Line[];
}

/** The same text for the same graph: states and times change nothing. */
export const shapeOf = (items: readonly Item[]): string => JSON.stringify(items);

/** One row if it can be read in this room, else as few as make it comfortable, or those with which it is largest. */
export function layoutOf(shape: string, room: Size): Layout {
  const columns = inColumns(JSON.parse(shape) as Item[]);
  let best = inRows(columns, 1);
  if (scaleFor(best, room) >= READABLE_ROW) return best;
  for (let rows = 2; rows <= columns.xs.length && scaleFor(best, room) < COMFORTABLE; rows++) {
    const next = inRows(columns, rows);
    if (scaleFor(next, room) > scaleFor(best, room)) best = next;
  }
  return best;
}

interface Columns {
  nodeWidth: number;
  /** The middle of each column. */
  xs: number[];
  nodes: { id: string; x: number; y: number; height: number }[];
  edges: { from: string; to: string; points: Point[] }[];
}

/** All in one row, as dagre lays it out. */
function inColumns(items: readonly Item[]): Columns {
  const nodeWidth = widthFor(items);
  const graph = new Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 14,
    ranksep: COLUMN_GAP,
    ranker: items.length > CAREFUL ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const item of items) graph.setNode(item.id, { width: nodeWidth, height: heightOf(item) });
  for (const { id, after } of items) for (const before of after) graph.setEdge(before, id);
  layout(graph);
  const nodes = items.map((item) => {
    const { x, y } = graph.node(item.id) as Point;
    return { id: item.id, x: Math.round(x), y, height: heightOf(item) };
  });
  return {
    nodeWidth,
    xs: [...new Set(nodes.map(({ x }) => x))].sort((a, b) => a - b),
    nodes,
    edges: graph.edges().map(({ v, w }) => ({
      from: v,
      to: w,
      points: (graph.edge({ v, w }) as { points: Point[] }).points,
    })),
  };
}

/** The columns in rows of the same length, the last one shorter. */
function inRows(columns: Columns, rows: number): Layout {
  const perRow = Math.max(Math.ceil(columns.xs.length / rows), 1);
  const narrow = placedIn(columns, perRow, ROW_GAP);
  const lanes = lanesOf(turnsOf(columns, narrow), COLUMN_GAP);
  const places = lanes.width === 0 ? narrow : placedIn(columns, perRow, ROW_GAP + lanes.width);
  const { nodeWidth, xs, nodes } = columns;
  const turns = turnsOf(columns, places).map((turn) => ({
    from: turn.from,
    to: turn.to,
    path: turnPath(turn, COLUMN_GAP, lanes.offset(turn.from)),
  }));
  const inRow = Math.min(perRow, xs.length);
  return {
    width: inRow * (nodeWidth + COLUMN_GAP) - COLUMN_GAP + 2 * places.turn + 2 * MARGIN,
    height: Math.max(places.bottom + MARGIN, 0),
    nodeWidth,
    nodes: nodes.map(({ id, height }) => {
      const { x, y } = places.middles.get(id) ?? { x: 0, y: 0 };
      return { id, x: x - nodeWidth / 2, y: y - height / 2, height, row: places.rowOf.get(id) ?? 0 };
    }),
    lines: [...linesWithin(columns, places), ...turns],
  };
}

interface Places {
  rowOf: Map<string, number>;
  /** The middle of the gap above each row. */
  gaps: number[];
  bottom: number;
  /** How much room lines to other rows need on both sides. */
  turn: number;
  /** Where a point of the one row is in its own row. */
  placed: (point: Point, row: number) => Point;
  middles: Map<string, Point>;
}

function placedIn({ nodeWidth, xs, nodes, edges }: Columns, perRow: number, rowGap: number): Places {
  const columnOf = new Map(xs.map((x, index) => [x, index]));
  const rowOf = new Map(nodes.map(({ id, x }) => [id, Math.floor((columnOf.get(x) ?? 0) / perRow)]));
  const tops: number[] = [];
  const begins: number[] = [];
  let bottom = MARGIN - rowGap;
  for (let row = 0; row * perRow < xs.length; row++) {
    const own = nodes.filter(({ id }) => rowOf.get(id) === row);
    const bends = edges
      .filter(({ from, to }) => rowOf.get(from) === row && rowOf.get(to) === row)
      .flatMap(({ points }) => points.map(({ y }) => y));
    const top = Math.min(...own.map(({ y, height }) => y - height / 2), ...bends);
    tops.push(bottom + rowGap);
    begins.push(top);
    bottom += rowGap + Math.max(...own.map(({ y, height }) => y + height / 2), ...bends) - top;
  }
  // A line to the next row leaves on the right, and enters on the left.
  const turn = xs.length > perRow ? COLUMN_GAP / 2 : 0;
  const placed = ({ x, y }: Point, row: number): Point => ({
    x: MARGIN + turn + nodeWidth / 2 + x - (xs[row * perRow] ?? 0),
    y: (tops[row] ?? 0) + y - (begins[row] ?? 0),
  });
  const middles = new Map(nodes.map(({ id, x, y }) => [id, placed({ x, y }, rowOf.get(id) ?? 0)]));
  return { rowOf, gaps: tops.map((top) => top - rowGap / 2), bottom, turn, placed, middles };
}

const isWithin = ({ rowOf }: Places, { from, to }: { from: string; to: string }): boolean =>
  rowOf.get(from) === rowOf.get(to);

/** Where a line leaves the one task on the right, and enters the other one on the left. */
function endsOf({ middles }: Places, { from, to }: { from: string; to: string }, nodeWidth: number): Point[] {
  const [one, other] = [middles.get(from), middles.get(to)];
  if (!one || !other) return [];
  return [
    { x: one.x + nodeWidth / 2, y: one.y },
    { x: other.x - nodeWidth / 2 - ARROW, y: other.y },
  ];
}

function linesWithin({ nodeWidth, edges }: Columns, places: Places): Line[] {
  return edges.flatMap((edge): Line[] => {
    const [begin, end] = endsOf(places, edge, nodeWidth);
    if (!begin || !end || !isWithin(places, edge)) return [];
    // From the right side to the left side of tasks; in between as laid out.
    const between = edge.points.length > 3 ? edge.points.slice(1, -1) : [];
    const row = places.rowOf.get(edge.to) ?? 0;
    const path = curve([begin, ...between.map((point) => places.placed(point, row)), end]);
    return [{ from: edge.from, to: edge.to, path }];
  });
}

function turnsOf({ nodeWidth, edges }: Columns, places: Places): Turn[] {
  return edges.flatMap((edge): Turn[] => {
    const [begin, end] = endsOf(places, edge, nodeWidth);
    if (!begin || !end || isWithin(places, edge)) return [];
    const gap = places.gaps[places.rowOf.get(edge.to) ?? 0] ?? 0;
    return [{ from: edge.from, to: edge.to, begin, end, gap }];
  });
}

const heightOf = (item: Item): number => (isGroup(item) ? GROUP_HEIGHT : NODE_HEIGHT);

/** All nodes have the width of the longest name, within bounds; a Japanese character counts twice. */
function widthFor(items: readonly Item[]): number {
  const names = items.map(
    ({ members }) => (members.length > 1 ? sharedBeginning(members) : members[0]) ?? "",
  );
  const places = names.map((name) => [...name].reduce((sum, each) => sum + (each > "\u2e7f" ? 1.8 : 1), 0));
  const least = items.some(isGroup) ? NARROWEST_GROUP : NARROWEST;
  return Math.min(Math.max(Math.max(...places) * LETTER + BESIDE_NAME, least), WIDEST);
}

/** A smooth curve that starts and ends horizontally. */
function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x},${first.y}`;
  let last = first;
  for (const point of rest) {
    const middle = (last.x + point.x) / 2;
    path += `C${middle},${last.y} ${middle},${point.y} ${point.x},${point.y}`;
    last = point;
  }
  return path;
}

export type Direction = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

/** The node that an arrow key goes to: the nearest in that direction; at the end of a row, along a line. */
export function beside(
  { nodes, lines, nodeWidth }: Layout,
  from: string,
  direction: Direction,
): string | null {
  const here = nodes.find((each) => each.id === from);
  if (!here) return nodes[0]?.id ?? null;
  const sideways = direction === "ArrowLeft" || direction === "ArrowRight";
  const sign = direction === "ArrowLeft" || direction === "ArrowUp" ? -1 : 1;
  let best: { id: string; cost: number } | null = null;
  for (const each of nodes) {
    const along = sign * (sideways ? each.x - here.x : each.y - here.y);
    const across = Math.abs(sideways ? each.y - here.y : each.x - here.x);
    if (along <= 1 || (sideways ? each.row !== here.row : across > nodeWidth / 2)) continue;
    const cost = along + 2 * across;
    if (!best || cost < best.cost) best = { id: each.id, cost };
  }
  if (best || !sideways) return best?.id ?? null;
  return sign > 0
    ? (lines.find((line) => line.from === from)?.to ?? null)
    : (lines.find((line) => line.to === from)?.from ?? null);
}
