/** The view of a graph in its frame: drag, wheel and pinch, zoom buttons, and the room there is. */
import { type PointerEvent, type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { Layout } from "./layout";
import { type Box, fitted, opening, type Point, type Size, showing, type View, zoomed } from "./view";

const TALLEST_PX = 360;
// Below the graph, so that they cover nothing.
export const TOOLS_PX = 34;
// A shorter movement is a click.
const MOVED_PX = 4;
const WHEEL_SPEED = 0.0022;

/** The width of an element; 0 until it is known. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const { current } = element;
    if (!current) return undefined;
    setWidth(current.clientWidth);
    const observer = new ResizeObserver(() => setWidth(current.clientWidth));
    observer.observe(current);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

export const roomOf = (width: number): Size => ({ width, height: TALLEST_PX });

/** `first` is the node that has to be seen when the graph appears. */
export function useView(
  frame: RefObject<HTMLElement | null>,
  layout: Layout,
  width: number,
  first: string | null,
) {
  const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 });
  const isMoved = useRef(false);
  const held = useRef(new Map<number, Point>());
  const drag = useRef<{ from: Point; view: View; moved: boolean } | null>(null);
  // As high as the first view needs: it stays so, or zooming would move what is looked at.
  const scale = opening(layout, roomOf(width), null).scale;
  const room: Size = { width, height: Math.min(layout.height * scale, TALLEST_PX) };

  const boxOf = (id: string | null): Box | null => {
    const node = layout.nodes.find((each) => each.id === id);
    return node ? { x: node.x, y: node.y, width: layout.nodeWidth, height: node.height } : null;
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: another graph, or another room, is shown from the start.
  useLayoutEffect(() => {
    if (!isMoved.current) setView(opening(layout, room, boxOf(first)));
  }, [layout, width]);

  const move = (change: (before: View) => View) => {
    isMoved.current = true;
    setView(change);
  };
  const zoom = (factor: number, at: Point = { x: room.width / 2, y: room.height / 2 }) =>
    move((before) => zoomed(before, factor, at, layout, room));
  const show = (id: string) => {
    const box = boxOf(id);
    if (box && width > 0) setView((before) => showing(before, box, layout, room));
  };
  const within = ({ clientX, clientY }: { clientX: number; clientY: number }): Point => {
    const corner = frame.current?.getBoundingClientRect();
    return { x: clientX - (corner?.left ?? 0), y: clientY - (corner?.top ?? 0) };
  };

  const zoomAt = useRef(zoom);
  zoomAt.current = zoom;
  useEffect(() => {
    const { current } = frame;
    // A pinch on a touchpad is a wheel with Ctrl. Without it, the page scrolls.
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const corner = current?.getBoundingClientRect();
      const at = { x: event.clientX - (corner?.left ?? 0), y: event.clientY - (corner?.top ?? 0) };
      zoomAt.current(Math.exp(-event.deltaY * WHEEL_SPEED), at);
    };
    // React's own listener cannot prevent the zoom of the page.
    current?.addEventListener("wheel", onWheel, { passive: false });
    return () => current?.removeEventListener("wheel", onWheel);
  }, [frame]);

  const release = ({ pointerId }: PointerEvent) => {
    held.current.delete(pointerId);
    drag.current = null;
  };
  const pinch = (pointerId: number, now: Point) => {
    const [other] = [...held.current].filter(([id]) => id !== pointerId);
    const before = held.current.get(pointerId);
    if (!other || !before) return;
    const [, fixed] = other;
    const grown = distance(now, fixed) / Math.max(distance(before, fixed), 1);
    const [from, to] = [middle(before, fixed), middle(now, fixed)];
    move((last) => {
      const next = zoomed(last, grown, from, layout, room);
      return { ...next, x: next.x + to.x - from.x, y: next.y + to.y - from.y };
    });
  };
  const pointers = {
    onPointerDown: (event: PointerEvent<HTMLElement>) => {
      if (event.button !== 0) return;
      const at = within(event);
      held.current.set(event.pointerId, at);
      drag.current = held.current.size === 1 ? { from: at, view, moved: false } : null;
    },
    onPointerMove: (event: PointerEvent<HTMLElement>) => {
      if (!held.current.has(event.pointerId)) return;
      const at = within(event);
      if (held.current.size === 2) pinch(event.pointerId, at);
      held.current.set(event.pointerId, at);
      const begun = drag.current;
      if (!begun) return;
      const [x, y] = [at.x - begun.from.x, at.y - begun.from.y];
      if (!begun.moved && Math.hypot(x, y) < MOVED_PX) return;
      if (!begun.moved) event.currentTarget.setPointerCapture(event.pointerId);
      begun.moved = true;
      move(() => ({ ...begun.view, x: begun.view.x + x, y: begun.view.y + y }));
    },
    onPointerUp: release,
    onPointerCancel: release,
  };
  return {
    view,
    height: room.height,
    zoom,
    show,
    pointers,
    fit: () => {
      isMoved.current = true;
      setView(fitted(layout, room));
    },
  };
}

const distance = (a: Point, b: Point): number => Math.hypot(a.x - b.x, a.y - b.y);
const middle = (a: Point, b: Point): Point => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
