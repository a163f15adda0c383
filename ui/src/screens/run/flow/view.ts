/** The visible part of a graph: what fits, zoom around a point, and bringing a node into view. */

export interface Size {
  width: number;
  height: number;
}
export interface Point {
  x: number;
  y: number;
}
/** Where the graph's corner is in the room, and its scale. */
export interface View extends Point {
  scale: number;
}
export type Box = Point & Size;

/** Below this, names are hard to read. */
export const READABLE = 0.7;
const SMALLEST = 0.3;
const LARGEST = 1.6;
/** How far from the edge of the room a node is brought. */
const EDGE_PX = 120;

/** The scale at which all of it is seen; never enlarged. */
export const scaleFor = (graph: Size, room: Size): number =>
  graph.width === 0 || room.width === 0
    ? 1
    : Math.min(room.width / graph.width, room.height / graph.height, 1);

/** All of the graph, in the middle of the room. */
export function fitted(graph: Size, room: Size): View {
  const scale = scaleFor(graph, room);
  return {
    x: (room.width - graph.width * scale) / 2,
    y: (room.height - graph.height * scale) / 2,
    scale,
  };
}

/** The first view: all of it if that can be read, else its beginning, or the given node. */
export function opening(graph: Size, room: Size, node: Box | null): View {
  const whole = fitted(graph, room);
  if (whole.scale >= READABLE) return whole;
  const scale = READABLE;
  const start = {
    x: Math.max((room.width - graph.width * scale) / 2, 0),
    y: Math.max((room.height - graph.height * scale) / 2, 0),
    scale,
  };
  return node ? showing(start, node, graph, room) : start;
}

/** Zoom around a point of the room, which stays where it is. */
export function zoomed(view: View, factor: number, at: Point, graph: Size, room: Size): View {
  const least = Math.min(SMALLEST, scaleFor(graph, room));
  const scale = Math.min(Math.max(view.scale * factor, least), LARGEST);
  const grown = scale / view.scale;
  return { x: at.x - (at.x - view.x) * grown, y: at.y - (at.y - view.y) * grown, scale };
}

/** Move as little as needed to show the node. */
export function showing(view: View, node: Box, graph: Size, room: Size): View {
  const { scale } = view;
  const x = into(view.x, node.x * scale, node.width * scale, graph.width * scale, room.width);
  const y = into(view.y, node.y * scale, node.height * scale, graph.height * scale, room.height);
  return x === view.x && y === view.y ? view : { x, y, scale };
}

/** The offset along one axis that shows a node with some margin. */
function into(moved: number, at: number, size: number, picture: number, room: number): number {
  if (picture <= room && moved >= 0 && moved + picture <= room) return moved;
  const edge = Math.min(EDGE_PX, (room - size) / 3);
  const seen = Math.min(Math.max(at + moved, edge), room - edge - size);
  return Math.min(Math.max(seen - at, Math.min(room - picture, 0)), 0);
}
