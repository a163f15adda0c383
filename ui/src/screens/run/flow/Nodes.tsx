/** The nodes of a graph: a task each, or all parallel tasks of a large fan-out. */
import { Repeat2 } from "lucide-react";
import { type KeyboardEvent, memo } from "react";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { joined } from "../../../ui/controls";
import { StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { messages as ofRun } from "../messages";
import { counted, type Task } from "../run";
import styles from "./Flow.module.css";
import { sharedBeginning } from "./groups";
import type { Direction, Placed } from "./layout";
import { messages } from "./messages";

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

interface TaskNodeProps extends CommonProps {
  state: Task["state"];
  calls: number;
  onSelect: (name: string | null) => void;
}

export const TaskNode = memo(
  function TaskNode({ state, calls, onSelect, ...common }: TaskNodeProps) {
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

export function GroupNode({ members, listId, isOpen, onToggle, ...common }: GroupNodeProps) {
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
