/** Zoom and movement of the timeline: wheel, pinch, drag and keys. */
import { type RefObject, useEffect, useEffectEvent, useState } from "react";
import { MOVED_PX, useDrag } from "../useDrag";
import type { Axis } from "./axis";
import { isWhole, moved, type Scale, scaleOf, type View, WHOLE, zoomed } from "./scale";

const STEP = 1.6;
const KEY_SHARE = 0.2;
const WHEEL_ZOOM = 0.01;
const LINE_PX = 16;

export interface Zoom {
  scale: Scale;
  isWhole: boolean;
  zoomIn: () => void;
  zoomOut: () => void;
  reset: () => void;
}

/** `chart` receives the gestures; `track` is as wide as the axis. */
export function useTimelineView(
  axis: Axis,
  chart: RefObject<HTMLElement | null>,
  track: RefObject<HTMLElement | null>,
): Zoom {
  const [view, setView] = useState<View>(WHOLE);
  const scale = scaleOf(axis, view);
  const zoom = (factor: number, anchor = 0.5) => setView(zoomed(scale, factor, anchor));
  const move = (share: number) => setView(moved(scale, share));
  const shareAt = (x: number) => {
    const { left = 0, width = 1 } = track.current?.getBoundingClientRect() ?? {};
    return Math.min(Math.max((x - left) / width, 0), 1);
  };
  const shareOf = (pixels: number) => pixels / (track.current?.clientWidth || 1);

  const onWheel = useEffectEvent((event: WheelEvent) => {
    const size = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_PX : 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * size * WHEEL_ZOOM), shareAt(event.clientX));
      return;
    }
    const across = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    if (isWhole(view) || Math.abs(across) < Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
    event.preventDefault();
    move(shareOf(across * size));
  });

  const onKeyDown = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    if (key === "+" || key === "=") zoom(STEP);
    else if (key === "-") zoom(1 / STEP);
    else if (key === "0") setView(WHOLE);
    else if (key === "ArrowLeft") move(-KEY_SHARE);
    else if (key === "ArrowRight") move(KEY_SHARE);
    else return;
    event.preventDefault();
  });

  const dragged = useDrag(chart, {
    isDrag: (pressed, now) => Math.abs(now.x - pressed.x) >= MOVED_PX && !isWhole(view),
    onDrag: (from, to) => move(-shareOf(to.x - from.x)),
    onPinch: (from, to, fixed) => {
      const spread = Math.abs(to.x - fixed.x) / Math.max(Math.abs(from.x - fixed.x), 1);
      zoom(spread || 1, shareAt((to.x + fixed.x) / 2));
    },
    dragsAfterPinch: true,
  });
  /** The end of a drag is no click on a row. */
  const onClick = useEffectEvent((event: MouseEvent) => {
    if (!dragged.current) return;
    dragged.current = false;
    event.preventDefault();
    event.stopPropagation();
  });

  useEffect(() => {
    const box = chart.current;
    if (!box) return;
    const stop = new AbortController();
    const { signal } = stop;
    // Not passive: the browser must not zoom the page.
    box.addEventListener("wheel", (event) => onWheel(event), { signal, passive: false });
    box.addEventListener("keydown", (event) => onKeyDown(event), { signal });
    box.addEventListener("click", (event) => onClick(event), { signal, capture: true });
    return () => stop.abort();
  }, [chart]);

  return {
    scale,
    isWhole: isWhole(view),
    zoomIn: () => zoom(STEP),
    zoomOut: () => zoom(1 / STEP),
    reset: () => setView(WHOLE),
  };
}
