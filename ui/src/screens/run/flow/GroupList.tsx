/** The tasks of a group, by status. */
import { X } from "lucide-react";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { IconButton, joined, Segments } from "../../../ui/controls";
import { StatusIcon, toneClass, useStatusText } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { counted, type Task } from "../run";
import styles from "./Flow.module.css";
import { sharedBeginning } from "./groups";
import { Mosaic } from "./Mosaic";
import { messages } from "./messages";

// More names than these are not read one by one.
const MOST_IN_LIST = 200;
const ALL = "ALL";
const NONE: ReadonlySet<string> = new Set();

interface GroupListProps {
  id: string;
  tasks: readonly Task[];
  selected: string | null;
  onSelect: (name: string | null) => void;
  onClose: () => void;
}

export function GroupList({ id, tasks, selected, onSelect, onClose }: GroupListProps) {
  const t = useMessages(messages);
  const word = useStatusText();
  const states = counted(tasks);
  // What failed is what one looks for.
  const [chosen, setChosen] = useState<string>(states.some(([state]) => state === "FAILED") ? "FAILED" : ALL);
  const isHidden = tasks.some(({ name, state }) => name === selected && chosen !== ALL && state !== chosen);
  const filter = isHidden || !states.some(([state]) => state === chosen) ? ALL : chosen;
  const shown = filter === ALL ? tasks : tasks.filter(({ state }) => state === filter);
  const label = t("groupLabel", { name: `${sharedBeginning(tasks.map(({ name }) => name))}…` });
  return (
    <section id={id} className={styles.members} aria-label={label}>
      <header className={styles.membersHead}>
        {states.length > 1 && (
          <Segments
            label={t("ofState")}
            value={filter}
            options={[
              ...states.map(([state, count]) => ({
                value: state as string,
                label: `${word(state)} ${count}`,
              })),
              { value: ALL, label: t("all", { count: tasks.length }) },
            ]}
            onChange={setChosen}
          />
        )}
        <IconButton label={t("closeGroup")} icon={<X size={14} />} onClick={onClose} />
      </header>
      {shown.length > MOST_IN_LIST ? (
        <Mosaic tasks={shown} selected={selected} near={NONE} onSelect={onSelect} />
      ) : (
        <Names tasks={shown} selected={selected} onSelect={onSelect} />
      )}
    </section>
  );
}

type NamesProps = Pick<GroupListProps, "tasks" | "selected" | "onSelect">;

function Names({ tasks, selected, onSelect }: NamesProps) {
  const word = useStatusText();
  const list = useRef<HTMLUListElement>(null);
  const at = tasks.findIndex(({ name }) => name === selected);
  useEffect(() => {
    if (at >= 0) list.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const buttons = [...(list.current?.querySelectorAll("button") ?? [])];
    const from = buttons.indexOf(document.activeElement as HTMLButtonElement);
    buttons[Math.min(Math.max(from + step, 0), buttons.length - 1)]?.focus();
  };
  return (
    <ul ref={list} className={styles.names} onKeyDown={onKeyDown}>
      {tasks.map(({ name, state }, index) => (
        <li key={name}>
          <button
            type="button"
            data-task={name}
            data-state={state}
            className={joined(styles.member, toneClass(state), name === selected && styles.chosen)}
            aria-pressed={name === selected}
            tabIndex={index === Math.max(at, 0) ? 0 : -1}
            onClick={() => onSelect(name === selected ? null : name)}
          >
            {state !== "PLANNED" && (
              <>
                <StatusIcon status={state} size={13} />
                <span className="hidden-visually">{word(state)}</span>
              </>
            )}
            <span className={styles.nodeName}>
              <UserText text={name} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
