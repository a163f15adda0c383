/** The graph of the flow with the states of its tasks. */
import { Workflow } from "lucide-react";
import type { ReactNode } from "react";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { joined } from "../../../ui/controls";
import { StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { Panel } from "../Panel";
import { counted, neighbours, type Task } from "../run";
import styles from "./Flow.module.css";
import { Graph } from "./Graph";
import { itemsOf } from "./groups";
import { Mosaic } from "./Mosaic";
import { messages } from "./messages";

// Larger graphs are slow to lay out and hard to read.
const MOST_IN_GRAPH = 100;
// Parallel tasks without edges.
const MOST_IN_COLUMN = 12;

interface FlowCardProps {
  tasks: readonly Task[];
  selected: string | null;
  onSelect: (name: string | null) => void;
  children?: ReactNode;
}

export function FlowCard({ tasks, selected, onSelect, children }: FlowCardProps) {
  const t = useMessages(messages);
  const near = neighbours(tasks, selected);
  // Tasks without states are nothing but their names, which tiles do not show.
  const linked = tasks.some(({ state, record }) => state === "PLANNED" || record.after?.length);
  const isTooLarge = linked ? itemsOf(tasks).length > MOST_IN_GRAPH : tasks.length > MOST_IN_COLUMN;
  const Picture = isTooLarge ? Mosaic : Graph;
  return (
    <Panel title={t("flow")} icon={Workflow} actions={<Counts tasks={tasks} />}>
      <Picture tasks={tasks} selected={selected} near={near} onSelect={onSelect} />
      {children}
    </Panel>
  );
}

function Counts({ tasks }: { tasks: readonly Task[] }) {
  const language = useLanguage();
  const word = useStatusText();
  const states = counted(tasks);
  if (states.length === 0) return null;
  return (
    <ul className={styles.counts}>
      {states.map(([state, count]) => (
        <li key={state} className={joined(toneClass(state))}>
          <StatusIcon status={state} size={12} />
          {count.toLocaleString(language)} {word(state)}
        </li>
      ))}
    </ul>
  );
}
