/** The flow as a graph, with zoom, pan and keyboard navigation. */
import { Maximize, Minus, Plus, Repeat2 } from "lucide-react";
import { type KeyboardEvent, memo, useEffect, useId, useMemo, useRef, useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { IconButton, joined } from "../../../ui/controls";
import { StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { messages as ofRun } from "../messages";
import { counted, type Task } from "../run";
import styles from "./Flow.module.css";
import { GroupList } from "./GroupList";
import { type Item, isGroup, itemsOf, sharedBeginning } from "./groups";
import { beside, type Direction, layoutOf, type Placed, shapeOf } from "./layout";
import { messages } from "./messages";
import { roomOf, TOOLS_PX, useView, useWidth } from "./useView";

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
  const { view, height, zoom, fit, pointers, show } = useView(frame, layout, width, important?.id ?? null);
  const [openId, setOpenId] = useState<string | null>(() =>
    important && isGroup(important) ? important.id : null,
  );
  const [focused, setFocused] = useState<string | null>(null);
  const arrow = useId();
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
      <div ref={frame} className={styles.frame} style={{ height: height + TOOLS_PX }} {...pointers}>
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
            {layout.lines.map(({ from, to, path }) => {
              const state = byName.get(from)?.state ?? "PENDING";
              const isChosen = chosen !== undefined && (from === chosen.id || to === chosen.id);
              return (
                <path
                  key={JSON.stringify([from, to])}
                  d={path}
                  markerEnd={`url(#${arrow})`}
                  className={joined(
                    toneClass(state),
                    state === "SUCCEEDED" && styles.passed,
                    isChosen && styles.chosenLine,
                  )}
                />
              );
            })}
          </svg>
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
                <Node
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
        <div className={styles.tools}>
          <IconButton label={t("zoomOut")} icon={<Minus size={14} />} onClick={() => zoom(1 / 1.25)} />
          <IconButton label={t("zoomIn")} icon={<Plus size={14} />} onClick={() => zoom(1.25)} />
          <IconButton label={t("fit")} icon={<Maximize size={14} />} onClick={fit} />
        </div>
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

/** What a person looks for first; null: nothing stands out. */
function mostImportant(tasks: readonly Task[]): string | null {
  for (const state of ["FAILED", "INTERRUPTED", "WAITING_HUMAN", "WAITING", "RUNNING"])
    for (const task of tasks) if (task.state === state) return task.name;
  return null;
}

interface CommonProps {
  node: Placed;
  width: number;
  selected: boolean;
  dimmed: boolean;
  tabStop: boolean;
  onWalk: (from: string, direction: Direction) => void;
}

/** What a task and a group have in common: their place, and the arrow keys. */
const placeOf = ({ node, width, tabStop, onWalk }: CommonProps) => ({
  style: { left: node.x, top: node.y, width, height: node.height },
  "data-node": node.id,
  tabIndex: tabStop ? 0 : -1,
  onKeyDown: (event: KeyboardEvent) => {
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    onWalk(node.id, event.key as Direction);
  },
});

interface NodeProps extends CommonProps {
  state: Task["state"];
  calls: number;
  onSelect: (name: string | null) => void;
}

const Node = memo(
  function Node({ state, calls, onSelect, ...common }: NodeProps) {
    const t = useMessages(ofRun);
    const word = useStatusText();
    const { node, selected, dimmed } = common;
    // A task of a flow has no status, only one of a run.
    const status = state === "PLANNED" ? null : word(state);
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
        {...placeOf(common)}
        data-task={node.id}
        data-state={state}
        aria-pressed={selected}
        title={[visible(node.id), status].filter(Boolean).join(" · ")}
        onClick={() => onSelect(selected ? null : node.id)}
      >
        {status !== null && (
          <span className={styles.nodeIcon}>
            <StatusIcon status={state} size={15} />
          </span>
        )}
        <span className={styles.nodeName}>
          <UserText text={node.id} />
        </span>
        {status !== null && <span className="hidden-visually">{status}</span>}
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

interface GroupNodeProps extends CommonProps {
  members: readonly Task[];
  listId: string;
  isOpen: boolean;
  onToggle: () => void;
}

function GroupNode({ members, listId, isOpen, onToggle, ...common }: GroupNodeProps) {
  const t = useMessages(messages);
  const word = useStatusText();
  const { selected, dimmed } = common;
  const name = sharedBeginning(members.map((each) => each.name));
  const count = t("taskCount", { count: members.length });
  const states = counted(members);
  const [worst] = states[0] ?? ["PLANNED"];
  return (
    <button
      type="button"
      className={joined(
        styles.node,
        styles.group,
        toneClass(worst),
        selected && styles.chosen,
        dimmed && styles.dimmed,
      )}
      {...placeOf(common)}
      data-group={members.length}
      data-state={worst}
      aria-expanded={isOpen}
      aria-controls={isOpen ? listId : undefined}
      title={[visible(name && `${name}…`), count, ...states.map(([state, each]) => `${each} ${word(state)}`)]
        .filter(Boolean)
        .join(" · ")}
      onClick={onToggle}
    >
      <span className={styles.groupName}>
        {name && (
          <span className={styles.nodeName}>
            <UserText text={name} />…
          </span>
        )}
        <span>{count}</span>
      </span>
      <span className={styles.groupStates}>
        {states.map(([state, each]) => (
          <span key={state} className={joined(styles.groupState, toneClass(state))}>
            <StatusIcon status={state} size={12} />
            {each}
            <span className="hidden-visually"> {word(state)}</span>
          </span>
        ))}
      </span>
    </button>
  );
}
