/** Details of the selected task, the run, and its events. */
import { X } from "lucide-react";
import { type KeyboardEvent, useId } from "react";
import { useQueryState } from "../../../app/router";
import { useMessages } from "../../../i18n/messages";
import { IconButton } from "../../../ui/controls";
import { messages } from "../messages";
import type { Run, Task, Wait } from "../run";
import styles from "./Details.module.css";
import { Events } from "./Events";
import { RunDetails } from "./RunDetails";
import { TaskDetails } from "./TaskDetails";

type Tab = "task" | "run" | "events";

interface DetailsProps {
  run: Run;
  tasks: readonly Task[];
  waits: readonly Wait[];
  selected: string | null;
  onSelect: (name: string | null) => void;
}

export function Details({ run, tasks, waits, selected, onSelect }: DetailsProps) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const id = useId();
  const task = tasks.find((each) => each.name === selected);
  const tabs: Tab[] = task ? ["task", "run", "events"] : ["run", "events"];
  const wanted = query.get("panel");
  const tab = tabs.find((each) => each === wanted) ?? tabs[0] ?? "run";
  const choose = (next: Tab) => change({ panel: next === tabs[0] ? null : next }, { replace: true });
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step && tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    if (!next) return;
    event.preventDefault();
    choose(next);
    event.currentTarget.querySelector<HTMLElement>(`[data-tab=${next}]`)?.focus();
  };
  return (
    <aside className={styles.panel} aria-label={t("details")}>
      <h2 className="hidden-visually">{t("details")}</h2>
      <div className={styles.tabs} role="tablist" aria-label={t("details")} onKeyDown={onKeyDown}>
        {tabs.map((each) => (
          <button
            key={each}
            type="button"
            role="tab"
            id={`${id}-${each}`}
            data-tab={each}
            aria-selected={each === tab}
            aria-controls={`${id}-panel`}
            tabIndex={each === tab ? 0 : -1}
            onClick={() => choose(each)}
          >
            {t(`tab.${each}`)}
          </button>
        ))}
      </div>
      {task && (
        <span className={styles.close}>
          <IconButton label={t("clearTask")} icon={<X size={14} />} onClick={() => onSelect(null)} />
        </span>
      )}
      <div
        className={styles.body}
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${tab}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
        tabIndex={0}
      >
        {tab === "task" && task && <TaskDetails run={run} task={task} onSelect={onSelect} />}
        {tab === "run" && <RunDetails run={run} tasks={tasks} onSelect={onSelect} />}
        {tab === "events" && <Events run={run} tasks={tasks} waits={waits} onSelect={onSelect} />}
      </div>
    </aside>
  );
}
