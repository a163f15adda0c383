/** The flow as a graph, with zoom, pan and keyboard navigation. */
import { Maximize, Minus, Plus } from "lucide-react";
import { useEffect, useId, useMemo, useRef, useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { IconButton, joined } from "../../../ui/controls";
import { toneClass } from "../../../ui/status";
import type { Task } from "../run";
import styles from "./Flow.module.css";
import { GroupList } from "./GroupList";
import { type Item, isGroup, itemsOf } from "./groups";
import { beside, type Direction, type Layout, layoutOf, shapeOf } from "./layout";
import { messages } from "./messages";
import { GroupNode, TaskNode } from "./Nodes";
import { roomOf, TOOLS_PX, useGraphView, useWidth } from "./useGraphView";

const ZOOM_STEP = 1.25;

export interface PictureProps {
  tasks: readonly Task[];
  selected: string | null;
  near: ReadonlySet<string>;
  onSelect: (name: string | null) => void;
}

export function Graph({ tasks, selected, near, onSelect }: PictureProps) {
  const t = useMessages(messages);
  const shape = shapeOf(itemsOf(tasks));
  const items = useMemo(() => JSON.parse(shape) as Item[], [shape]);
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const layout = useMemo(() => layoutOf(shape, roomOf(width)), [shape, width]);
  const itemWith = (name: string | null) =>
    items.find(({ members }) => name !== null && members.includes(name));
  const chosen = itemWith(selected);
  const important = itemWith(selected ?? mostImportant(tasks));
  const { view, height, zoom, fit, show } = useGraphView(frame, layout, width, important?.id ?? null);
  const [openId, setOpenId] = useState<string | null>(() =>
    important && isGroup(important) ? important.id : null,
  );
  const [focused, setFocused] = useState<string | null>(null);
  const listId = useId();
  const byName = new Map(tasks.map((each) => [each.name, each]));
  const membersOf = ({ members }: Item) => members.flatMap((name) => byName.get(name) ?? []);
  const tabStop = focused ?? chosen?.id ?? layout.nodes[0]?.id;
  const opened = items.find(({ id, members }) => id === openId && members.length > 1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another selection moves the picture.
  useEffect(() => {
    if (!chosen) return;
    show(chosen.id);
    setFocused(chosen.id);
    if (isGroup(chosen)) setOpenId(chosen.id);
  }, [selected, layout]);

  const walk = (from: string, direction: Direction) => {
    const next = beside(layout, from, direction);
    const item = items.find(({ id }) => id === next);
    if (!item) return;
    // A group has no details of its own.
    if (!isGroup(item)) onSelect(item.id);
    setFocused(item.id);
    show(item.id);
    requestAnimationFrame(() =>
      frame.current
        ?.querySelector<HTMLElement>(`[data-node="${CSS.escape(item.id)}"]`)
        ?.focus({ preventScroll: true }),
    );
  };
  return (
    <>
      <div ref={frame} className={styles.frame} style={{ height: height + TOOLS_PX }}>
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
          <Lines
            layout={layout}
            stateOf={(name) => byName.get(name)?.state ?? "PENDING"}
            chosen={chosen?.id}
          />
          {layout.nodes.map((node) => {
            const item = items.find(({ id }) => id === node.id);
            if (!item) return null;
            const isChosen = item === chosen;
            const common = {
              node,
              width: layout.nodeWidth,
              selected: isChosen,
              dimmed: chosen !== undefined && !isChosen && !item.members.some((name) => near.has(name)),
              tabStop: node.id === tabStop,
              onWalk: walk,
            };
            const task = byName.get(item.members[0] ?? "");
            if (isGroup(item))
              return (
                <GroupNode
                  key={node.id}
                  {...common}
                  members={membersOf(item)}
                  listId={listId}
                  isOpen={item === opened}
                  onToggle={() => setOpenId(item === opened ? null : item.id)}
                />
              );
            return (
              task && (
                <TaskNode
                  key={node.id}
                  {...common}
                  state={task.state}
                  calls={task.record.calls ?? 1}
                  onSelect={onSelect}
                />
              )
            );
          })}
        </div>
        <ZoomTools onZoom={zoom} onFit={fit} />
      </div>
      {opened && (
        <GroupList
          key={opened.id}
          id={listId}
          tasks={membersOf(opened)}
          selected={selected}
          onSelect={onSelect}
          onClose={() => setOpenId(null)}
        />
      )}
    </>
  );
}

interface LinesProps {
  layout: Layout;
  stateOf: (name: string) => Task["state"];
  /** The node whose lines stand out. */
  chosen: string | undefined;
}

function Lines({ layout, stateOf, chosen }: LinesProps) {
  const arrow = useId();
  return (
    <svg className={styles.lines} width={layout.width} height={layout.height} aria-hidden>
      <marker id={arrow} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">
        <path d="M0,0.5L7,4L0,7.5" />
      </marker>
      {layout.lines.map(({ from, to, path }) => {
        const state = stateOf(from);
        return (
          <path
            key={JSON.stringify([from, to])}
            d={path}
            markerEnd={`url(#${arrow})`}
            className={joined(
              toneClass(state),
              state === "SUCCEEDED" && styles.passed,
              chosen !== undefined && (from === chosen || to === chosen) && styles.chosenLine,
            )}
          />
        );
      })}
    </svg>
  );
}

function ZoomTools({ onZoom, onFit }: { onZoom: (factor: number) => void; onFit: () => void }) {
  const t = useMessages(messages);
  return (
    <div className={styles.tools}>
      <IconButton label={t("zoomOut")} icon={<Minus size={14} />} onClick={() => onZoom(1 / ZOOM_STEP)} />
      <IconButton label={t("zoomIn")} icon={<Plus size={14} />} onClick={() => onZoom(ZOOM_STEP)} />
      <IconButton label={t("fit")} icon={<Maximize size={14} />} onClick={onFit} />
    </div>
  );
}

/** What a person looks for first; null: nothing stands out. */
function mostImportant(tasks: readonly Task[]): string | null {
  for (const state of ["FAILED", "INTERRUPTED", "WAITING_HUMAN", "WAITING", "RUNNING"])
    for (const task of tasks) if (task.state === state) return task.name;
  return null;
}
