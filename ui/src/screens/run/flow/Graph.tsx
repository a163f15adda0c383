/** The flow as a graph, with zoom, pan and keyboard navigation. */
import { Maximize, Minus, Plus, Repeat2 } from "lucide-react";
import {
  memo,
  type PointerEvent,
  type RefObject,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { IconButton, joined } from "../../../ui/controls";
import { StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { messages } from "../messages";
import type { Task } from "../run";
import styles from "./Flow.module.css";
import { beside, type Direction, type Layout, layoutOf, NODE_HEIGHT, type Placed, shapeOf } from "./layout";

interface View {
  x: number;
  y: number;
  scale: number;
}
const SMALLEST = 0.3;
const LARGEST = 1.6;
const READABLE = 0.72;
const TALLEST_PX = 330;
// Below the graph, so that they cover nothing.
const TOOLS_PX = 34;
const EDGE_PX = 120;
// A shorter movement is a click.
const MOVED_PX = 4;

interface GraphProps {
  tasks: readonly Task[];
  selected: string | null;
  near: ReadonlySet<string>;
  onSelect: (name: string | null) => void;
}

export function Graph({ tasks, selected, near, onSelect }: GraphProps) {
  const t = useMessages(messages);
  const shape = shapeOf(tasks);
  const layout = useMemo(() => layoutOf(shape), [shape]);
  const frame = useRef<HTMLDivElement>(null);
  const arrow = useId();
  const { view, zoom, fit, drag, show } = useView(frame, layout);
  const states = new Map(tasks.map((each) => [each.name, each]));
  const tabStop = selected !== null && states.has(selected) ? selected : layout.nodes[0]?.name;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another selection moves the picture.
  useEffect(() => {
    if (selected !== null) show(selected);
  }, [selected, layout]);

  const walk = (from: string, direction: Direction) => {
    const next = beside(layout, from, direction);
    if (next === null) return;
    onSelect(next);
    requestAnimationFrame(() =>
      frame.current
        ?.querySelector<HTMLElement>(`[data-task="${CSS.escape(next)}"]`)
        ?.focus({ preventScroll: true }),
    );
  };
  return (
    <div
      ref={frame}
      className={styles.frame}
      style={{ height: Math.min(layout.height * Math.min(view.scale, 1), TALLEST_PX) + TOOLS_PX }}
      {...drag}
    >
      <div
        role="group"
        aria-label={t("graphLabel")}
        className={styles.canvas}
        style={{
          width: layout.width,
          height: layout.height,
          transform: `translate(${view.x}px, ${view.y}px) scale(${view.scale})`,
        }}
      >
        <svg className={styles.lines} width={layout.width} height={layout.height} aria-hidden>
          <marker
            id={arrow}
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="6"
            markerHeight="6"
            orient="auto"
          >
            <path d="M0,0.5L7,4L0,7.5" />
          </marker>
          {layout.lines.map(({ from, to, path }) => (
            <path
              key={`${from}\n${to}`}
              d={path}
              markerEnd={`url(#${arrow})`}
              className={joined(
                toneClass(states.get(from)?.state ?? "PENDING"),
                states.get(from)?.state === "SUCCEEDED" && styles.passed,
                selected !== null && (from === selected || to === selected) && styles.chosenLine,
              )}
            />
          ))}
        </svg>
        {layout.nodes.map((node) => {
          const task = states.get(node.name);
          return (
            task && (
              <Node
                key={node.name}
                node={node}
                width={layout.nodeWidth}
                state={task.state}
                calls={task.record.calls ?? 1}
                selected={node.name === selected}
                dimmed={selected !== null && node.name !== selected && !near.has(node.name)}
                tabStop={node.name === tabStop}
                onSelect={onSelect}
                onWalk={walk}
              />
            )
          );
        })}
      </div>
      <div className={styles.tools}>
        <IconButton label={t("zoomOut")} icon={<Minus size={14} />} onClick={() => zoom(1 / 1.25)} />
        <IconButton label={t("zoomIn")} icon={<Plus size={14} />} onClick={() => zoom(1.25)} />
        <IconButton label={t("fit")} icon={<Maximize size={14} />} onClick={fit} />
      </div>
    </div>
  );
}

interface NodeProps {
  node: Placed;
  width: number;
  state: string;
  calls: number;
  selected: boolean;
  dimmed: boolean;
  tabStop: boolean;
  onSelect: (name: string | null) => void;
  onWalk: (from: string, direction: Direction) => void;
}

const Node = memo(
  function Node({ node, width, state, calls, selected, dimmed, tabStop, onSelect, onWalk }: NodeProps) {
    const t = useMessages(messages);
    const word = useStatusText();
    return (
      <button
        type="button"
        className={joined(
          styles.node,
          toneClass(state),
          state === "PENDING" && styles.notYet,
          selected && styles.chosen,
          dimmed && styles.dimmed,
        )}
        style={{ left: node.x, top: node.y, width, height: NODE_HEIGHT }}
        data-task={node.name}
        data-state={state}
        aria-pressed={selected}
        tabIndex={tabStop ? 0 : -1}
        title={`${visible(node.name)} · ${word(state)}`}
        onClick={() => onSelect(selected ? null : node.name)}
        onKeyDown={(event) => {
          if (!event.key.startsWith("Arrow")) return;
          event.preventDefault();
          onWalk(node.name, event.key as Direction);
        }}
      >
        <span className={styles.nodeIcon}>
          <StatusIcon status={state} size={15} />
        </span>
        <span className={styles.nodeName}>
          <UserText text={node.name} />
        </span>
        <span className="hidden-visually">{word(state)}</span>
        {calls > 1 && (
          <span className={styles.calls} title={t("calls", { count: calls })}>
            <Repeat2 size={11} aria-hidden />
            {calls}
          </span>
        )}
      </button>
    );
  },
  (before, now) =>
    before.node === now.node &&
    before.state === now.state &&
    before.calls === now.calls &&
    before.selected === now.selected &&
    before.dimmed === now.dimmed &&
    before.tabStop === now.tabStop,
);

/** The scroll offset along one axis that shows a task with some margin. */
function into(moved: number, at: number, size: number, picture: number, room: number): number {
  if (picture <= room && moved >= 0 && moved + picture <= room) return moved;
  const edge = Math.min(EDGE_PX, (room - size) / 3);
  const seen = Math.min(Math.max(at + moved, edge), room - edge - size);
  return Math.min(Math.max(seen - at, Math.min(room - picture, 0)), 0);
}

/** The visible part of the graph, and the zoom. */
function useView(frame: RefObject<HTMLDivElement | null>, layout: Layout) {
  const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 });
  const grip = useRef<{ x: number; y: number; view: View; moved: boolean } | null>(null);

  const fitted = (): View => {
    const room = frame.current?.getBoundingClientRect();
    if (!room || layout.width === 0) return { x: 0, y: 0, scale: 1 };
    const scale = Math.max(Math.min(room.width / layout.width, TALLEST_PX / layout.height, 1), READABLE);
    return { x: Math.max((room.width - layout.width * scale) / 2, 0), y: 0, scale };
  };
  // Initially the whole graph is shown, if it fits.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another picture is shown whole.
  useLayoutEffect(() => setView(fitted()), [layout]);

  const zoom = (factor: number) =>
    setView((before) => {
      const room = frame.current?.getBoundingClientRect();
      const scale = Math.min(Math.max(before.scale * factor, SMALLEST), LARGEST);
      const middle = { x: (room?.width ?? 0) / 2, y: (room?.height ?? 0) / 2 };
      const grown = scale / before.scale;
      return {
        x: middle.x - (middle.x - before.x) * grown,
        y: middle.y - (middle.y - before.y) * grown,
        scale,
      };
    });

  /** Move as little as needed to show the task. */
  const show = (name: string) => {
    const node = layout.nodes.find((each) => each.name === name);
    const room = frame.current?.getBoundingClientRect();
    if (!node || !room) return;
    setView((before) => {
      const { scale } = before;
      const x = into(before.x, node.x * scale, layout.nodeWidth * scale, layout.width * scale, room.width);
      const y = into(before.y, node.y * scale, NODE_HEIGHT * scale, layout.height * scale, room.height);
      return x === before.x && y === before.y ? before : { ...before, x, y };
    });
  };

  const drag = {
    onPointerDown: (event: PointerEvent<HTMLDivElement>) => {
      if (event.button === 0) grip.current = { x: event.clientX, y: event.clientY, view, moved: false };
    },
    onPointerMove: (event: PointerEvent<HTMLDivElement>) => {
      const held = grip.current;
      if (!held) return;
      const [x, y] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.moved && Math.hypot(x, y) < MOVED_PX) return;
      if (!held.moved) event.currentTarget.setPointerCapture(event.pointerId);
      held.moved = true;
      setView({ ...held.view, x: held.view.x + x, y: held.view.y + y });
    },
    onPointerUp: () => {
      grip.current = null;
    },
    onPointerCancel: () => {
      grip.current = null;
    },
  };
  return { view, zoom, show, drag, fit: () => setView(fitted()) };
}
