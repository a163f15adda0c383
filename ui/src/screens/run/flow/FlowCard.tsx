/** The graph of the flow with the states of its tasks. */
import { Workflow } from "lucide-react";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { joined } from "../../../ui/controls";
import { StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { messages } from "../messages";
import { Panel } from "../Panel";
import { counted, neighbours, type Task } from "../run";
import styles from "./Flow.module.css";
import { Graph } from "./Graph";
import { Mosaic } from "./Mosaic";

// Larger graphs are slow to lay out and hard to read.
const MOST_IN_GRAPH = 100;
// Parallel tasks without edges.
const MOST_IN_COLUMN = 12;

interface FlowCardProps {
  tasks: readonly Task[];
  selected: string | null;
  onSelect: (name: string | null) => void;
  /** Of a flow, not of a run: nothing has a state. */
  isPlan?: boolean;
}

export function FlowCard({ tasks, selected, onSelect, isPlan }: FlowCardProps) {
  const t = useMessages(messages);
  const near = neighbours(tasks, selected);
  const linked = tasks.some((each) => each.record.after);
  const Picture = tasks.length > (linked ? MOST_IN_GRAPH : MOST_IN_COLUMN) ? Mosaic : Graph;
  return (
    <Panel title={t("flow")} icon={Workflow} actions={!isPlan && <Counts tasks={tasks} />}>
      <Picture tasks={tasks} selected={selected} near={near} onSelect={onSelect} />
    </Panel>
  );
}

function Counts({ tasks }: { tasks: readonly Task[] }) {
  const language = useLanguage();
  const word = useStatusText();
  return (
    <ul className={styles.counts}>
      {counted(tasks).map(([state, count]) => (
        <li key={state} className={joined(toneClass(state))}>
          <StatusIcon status={state} size={12} />
          {count.toLocaleString(language)} {word(state)}
        </li>
      ))}
    </ul>
  );
}
