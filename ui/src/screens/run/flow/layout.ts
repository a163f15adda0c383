/** Where the tasks of a flow are drawn: from left to right, each behind those it follows. */
import { Graph, layout } from "@dagrejs/dagre";
import type { Task } from "../run";

export const NODE = { width: 172, height: 38 };
const MARGIN = 14;
// A better order takes longer than a reader waits, from here on.
const CAREFUL = 60;

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
  nodes: Placed[];
  lines: Line[];
}

/** The same text for the same graph: states and times do not move anything. */
export const shapeOf = (tasks: readonly Task[]): string =>
  JSON.stringify(tasks.map(({ name, record }) => [name, record.after ?? []]));

export function laidOut(shape: string): Layout {
  const tasks = JSON.parse(shape) as [string, string[]][];
  const names = new Set(tasks.map(([name]) => name));
  const graph = new Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 14,
    ranksep: 44,
    marginx: MARGIN,
    marginy: MARGIN,
    ranker: tasks.length > CAREFUL ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const [name] of tasks) graph.setNode(name, { ...NODE });
  for (const [name, after] of tasks)
    for (const before of after) if (names.has(before)) graph.setEdge(before, name);
  layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  const nodes = tasks.map(([name]) => {
    const { x, y } = graph.node(name) as { x: number; y: number };
    return { name, x: x - NODE.width / 2, y: y - NODE.height / 2 };
  });
  const lines = graph.edges().map(({ v, w }) => {
    const { points } = graph.edge({ v, w }) as { points: { x: number; y: number }[] };
    return { from: v, to: w, path: curve(points) };
  });
  return { width, height, nodes, lines };
}

/** A smooth line that leaves and arrives flat. */
function curve(points: { x: number; y: number }[]): string {
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

/** The task that an arrow key leads to: the nearest in that direction. */
export function beside(nodes: readonly Placed[], from: string, direction: Direction): string | null {
  const here = nodes.find((each) => each.name === from);
  if (!here) return nodes[0]?.name ?? null;
  const sideways = direction === "ArrowLeft" || direction === "ArrowRight";
  const sign = direction === "ArrowLeft" || direction === "ArrowUp" ? -1 : 1;
  let best: { name: string; cost: number } | null = null;
  for (const each of nodes) {
    const along = sign * (sideways ? each.x - here.x : each.y - here.y);
    const across = Math.abs(sideways ? each.y - here.y : each.x - here.x);
    if (along <= 1 || (!sideways && across > NODE.width / 2)) continue;
    const cost = along + 2 * across;
    if (!best || cost < best.cost) best = { name: each.name, cost };
  }
  return best?.name ?? null;
}
