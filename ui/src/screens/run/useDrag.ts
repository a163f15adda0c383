/** Dragging an element with one pointer, and pinching it with two. */
import { type RefObject, useEffect, useEffectEvent, useRef } from "react";

export interface Point {
  x: number;
  y: number;
}

/** A shorter movement is a click. */
export const MOVED_PX = 4;

/** All points are those of the window. */
interface Gestures {
  /** Whether a pointer that has moved so far since it was pressed drags; else it may still be a click. */
  isDrag: (pressed: Point, now: Point) => boolean;
  onDrag: (from: Point, to: Point) => void;
  /** One of two pointers has moved; `fixed` is the other one. */
  onPinch: (from: Point, to: Point, fixed: Point) => void;
  /** Whether the last pointer of a pinch goes on as a drag. */
  dragsAfterPinch: boolean;
}

/** Whether there was a drag or a pinch since the first pointer was pressed. */
export function useDrag(box: RefObject<HTMLElement | null>, gestures: Gestures): RefObject<boolean> {
  const pressed = useRef(new Map<number, Point>());
  const hasPinched = useRef(false);
  const hasMoved = useRef(false);

  const onDown = useEffectEvent((event: PointerEvent) => {
    if (event.button !== 0) return;
    if (pressed.current.size === 0) hasMoved.current = false;
    hasPinched.current = pressed.current.size > 0;
    pressed.current.set(event.pointerId, pointOf(event));
  });
  const onMove = useEffectEvent((event: PointerEvent) => {
    const before = pressed.current.get(event.pointerId);
    if (before === undefined) return;
    const now = pointOf(event);
    const fixed = [...pressed.current].find(([id]) => id !== event.pointerId)?.[1];
    if (fixed === undefined && hasPinched.current && !gestures.dragsAfterPinch) {
      // Another pinch may begin from here.
      pressed.current.set(event.pointerId, now);
      return;
    }
    if (!hasMoved.current) {
      if (fixed === undefined && !gestures.isDrag(before, now)) return;
      hasMoved.current = true;
      // The end of a drag outside of the element counts too.
      box.current?.setPointerCapture(event.pointerId);
    }
    pressed.current.set(event.pointerId, now);
    if (fixed === undefined) gestures.onDrag(before, now);
    else gestures.onPinch(before, now, fixed);
  });
  const onEnd = useEffectEvent((event: PointerEvent) => void pressed.current.delete(event.pointerId));

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const stop = new AbortController();
    const { signal } = stop;
    element.addEventListener("pointerdown", (event) => onDown(event), { signal });
    element.addEventListener("pointermove", (event) => onMove(event), { signal });
    for (const end of ["pointerup", "pointercancel", "pointerleave"] as const)
      element.addEventListener(end, (event) => onEnd(event), { signal });
    return () => stop.abort();
  }, [box]);
  return hasMoved;
}

const pointOf = ({ clientX, clientY }: PointerEvent): Point => ({ x: clientX, y: clientY });

export const distance = (a: Point, b: Point): number => Math.hypot(a.x - b.x, a.y - b.y);
export const middle = (a: Point, b: Point): Point => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
