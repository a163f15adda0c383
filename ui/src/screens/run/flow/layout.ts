/** The layout of a graph from left to right. */
import { Graph, layout } from "@dagrejs/dagre";
import type { Task } from "../run";

export const NODE_HEIGHT = 36;
const NARROWEST = 96;
const WIDEST = 196;
// The icon and its padding.
const BESIDE_NAME = 54;
const LETTER = 7.4;
const MARGIN = 12;
// The arrow head is at the end of the edge.
const ARROW = 2;
// Above this, a better order takes too long.
const CAREFUL = 60;

interface Point {
  x: number;
  y: number;
}
export interface Placed {
  name: string;
  x: number;
  y: number;
}
export interface Line {
  from: string;
  to: string;
  path: string;
}
export interface Layout {
  width: number;
  height: number;
  nodeWidth: number;
  nodes: Placed[];
  lines: Line[];
}

/** The same text for the same graph: states and times change nothing. */
export const shapeOf = (tasks: readonly Task[]): string =>
  JSON.stringify(tasks.map(({ name, record }) => [name, record.after ?? []]));

export function layoutOf(shape: string): Layout {
  const tasks = JSON.parse(shape) as [string, string[]][];
  const names = new Set(tasks.map(([name]) => name));
  const nodeWidth = widthFor([...names]);
  const graph = new Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 14,
    ranksep: 36,
    marginx: MARGIN,
    marginy: MARGIN,
    ranker: tasks.length > CAREFUL ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const [name] of tasks) graph.setNode(name, { width: nodeWidth, height: NODE_HEIGHT });
  for (const [name, after] of tasks)
    for (const before of after) if (names.has(before)) graph.setEdge(before, name);
  layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  const nodes = tasks.map(([name]) => {
    const { x, y } = graph.node(name) as { x: number; y: number };
    return { name, x: x - nodeWidth / 2, y: y - NODE_HEIGHT / 2 };
  });
  const lines = graph.edges().map(({ v, w }) => {
    const { points } = graph.edge({ v, w }) as { points: Point[] };
    const [from, to] = [graph.node(v) as Point, graph.node(w) as Point];
    // From the right side to the left side of tasks; in between as laid out.
    const between = points.length > 3 ? points.slice(1, -1) : [];
    const ends = [
      { x: from.x + nodeWidth / 2, y: from.y },
      { x: to.x - nodeWidth / 2 - ARROW, y: to.y },
    ];
    return { from: v, to: w, path: curve([...ends.slice(0, 1), ...between, ...ends.slice(1)]) };
  });
  return { width, height, nodeWidth, nodes, lines };
}

/** All tasks have the width of the longest name, within bounds; a Japanese character counts twice. */
function widthFor(names: readonly string[]): number {
  const places = names.map((name) => [...name].reduce((sum, each) => sum + (each > "\u2e7f" ? 1.8 : 1), 0));
  return Math.min(Math.max(Math.max(...places) * LETTER + BESIDE_NAME, NARROWEST), WIDEST);
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

/** The task that an arrow key selects: the nearest in that direction. */
export function beside({ nodes, nodeWidth }: Layout, from: string, direction: Direction): string | null {
  const here = nodes.find((each) => each.name === from);
  if (!here) return nodes[0]?.name ?? null;
  const sideways = direction === "ArrowLeft" || direction === "ArrowRight";
  const sign = direction === "ArrowLeft" || direction === "ArrowUp" ? -1 : 1;
  let best: { name: string; cost: number } | null = null;
  for (const each of nodes) {
    const along = sign * (sideways ? each.x - here.x : each.y - here.y);
    const across = Math.abs(sideways ? each.y - here.y : each.x - here.x);
    if (along <= 1 || (!sideways && across > nodeWidth / 2)) continue;
    const cost = along + 2 * across;
    if (!best || cost < best.cost) best = { name: each.name, cost };
  }
  return best?.name ?? null;
}
