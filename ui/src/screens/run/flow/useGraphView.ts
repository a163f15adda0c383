/** The view of a graph in its frame: drag, wheel and pinch, zoom buttons, and the room there is. */
import { type RefObject, useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from "react";
import { distance, MOVED_PX, middle, useDrag } from "../useDrag";
import type { Layout } from "./layout";
import { type Box, fitted, opening, type Point, type Size, showing, type View, zoomed } from "./view";

const TALLEST_PX = 360;
// Below the graph, so that they cover nothing.
export const TOOLS_PX = 34;
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
export function useGraphView(
  frame: RefObject<HTMLElement | null>,
  layout: Layout,
  width: number,
  first: string | null,
) {
  const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 });
  const isMoved = useRef(false);
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
  const within = ({ x, y }: Point): Point => {
    const corner = frame.current?.getBoundingClientRect();
    return { x: x - (corner?.left ?? 0), y: y - (corner?.top ?? 0) };
  };

  const onWheel = useEffectEvent((event: WheelEvent) => {
    // A pinch on a touchpad is a wheel with Ctrl. Without it, the page scrolls.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * WHEEL_SPEED), within({ x: event.clientX, y: event.clientY }));
  });
  useEffect(() => {
    const { current } = frame;
    const listener = (event: WheelEvent) => onWheel(event);
    // React's own listener cannot prevent the zoom of the page.
    current?.addEventListener("wheel", listener, { passive: false });
    return () => current?.removeEventListener("wheel", listener);
  }, [frame]);

  useDrag(frame, {
    isDrag: (pressed, now) => distance(pressed, now) >= MOVED_PX,
    onDrag: (from, to) => move((before) => shifted(before, from, to)),
    onPinch: (from, to, fixed) => {
      const grown = distance(to, fixed) / Math.max(distance(from, fixed), 1);
      const [before, now] = [within(middle(from, fixed)), within(middle(to, fixed))];
      move((last) => shifted(zoomed(last, grown, before, layout, room), before, now));
    },
    dragsAfterPinch: false,
  });
  return {
    view,
    height: room.height,
    zoom,
    show,
    fit: () => {
      isMoved.current = true;
      setView(fitted(layout, room));
    },
  };
}

const shifted = (view: View, from: Point, to: Point): View => ({
  ...view,
  x: view.x + to.x - from.x,
  y: view.y + to.y - from.y,
});
