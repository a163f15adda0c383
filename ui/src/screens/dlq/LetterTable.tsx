import { useRef } from "react";
import { useRestoredScroll } from "../../app/restoredState";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { useRowKeys } from "../../ui/rowKeys";
import { StatusBadge } from "../../ui/status";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import styles from "./Dlq.module.css";
import type { Letter } from "./letters";
import { messages } from "./messages";
import { useReasonText } from "./reasons";

interface LetterTableProps {
  letters: readonly Letter[];
  selected: ReadonlySet<number>;
  onSelect: (seqs: ReadonlySet<number>) => void;
}

/** One row per letter. */
export function LetterTable({ letters, selected, onSelect }: LetterTableProps) {
  const t = useMessages(messages);
  const body = useRowKeys<HTMLTableSectionElement>({ next: t("nextLetter"), previous: t("previousLetter") });
  useRestoredScroll("dlq", () => body.current?.closest("main"));
  const toggle = (seq: number) => {
    const next = new Set(selected);
    if (!next.delete(seq)) next.add(seq);
    onSelect(next);
  };
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col" className={styles.check}>
              <SelectAll letters={letters} selected={selected} onSelect={onSelect} />
            </th>
            <th scope="col">{t("when")}</th>
            <th scope="col">{t("why")}</th>
            <th scope="col">{t("flow")}</th>
            <th scope="col">{t("worker")}</th>
            <th scope="col">{t("rerun")}</th>
            <th scope="col">{t("error")}</th>
          </tr>
        </thead>
        <tbody ref={body}>
          {letters.map((letter) => (
            <LetterRow
              key={letter.seq}
              letter={letter}
              selected={selected.has(letter.seq)}
              onToggle={() => toggle(letter.seq)}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Selects the letters of this page. */
function SelectAll({ letters, selected, onSelect }: LetterTableProps) {
  const t = useMessages(messages);
  const box = useRef<HTMLInputElement>(null);
  const count = letters.filter(({ seq }) => selected.has(seq)).length;
  if (box.current) box.current.indeterminate = count > 0 && count < letters.length;
  const all = count === letters.length;
  return (
    <label>
      <input
        ref={box}
        type="checkbox"
        checked={all}
        onChange={() => onSelect(new Set(all ? [] : letters.map(({ seq }) => seq)))}
      />
      <span className={styles.selectAll}>{t("selectAll")}</span>
    </label>
  );
}

interface LetterRowProps {
  letter: Letter;
  selected: boolean;
  onToggle: () => void;
}

function LetterRow({ letter, selected, onToggle }: LetterRowProps) {
  const t = useMessages(messages);
  const reason = useReasonText();
  const [, change] = useQueryState();
  const name = letter.flow_name ?? t("noFlow");
  return (
    <tr data-letter={letter.seq}>
      <td className={styles.check}>
        <input
          type="checkbox"
          checked={selected}
          aria-label={t("select", { seq: letter.seq, flow: name })}
          onChange={onToggle}
        />
      </td>
      <td>
        <Ago at={letter.timestamp} />
      </td>
      <td className={styles.reason}>{reason(letter.reason)}</td>
      <th scope="row">
        <button
          type="button"
          data-row
          className={styles.open}
          onClick={() => change({ seq: String(letter.seq) })}
        >
          <span className={styles.name} title={letter.flow_name ? visible(letter.flow_name) : undefined}>
            <UserText text={name} />
          </span>
          {letter.run_id && <code>{letter.run_id.slice(0, 8)}</code>}
        </button>
      </th>
      <td>
        <UserText text={letter.worker_id ?? ""} />
      </td>
      <td data-head={t("rerun")}>{letter.rerun && <StatusBadge status={letter.rerun.status} />}</td>
      <td className={styles.error} title={letter.error ? visible(letter.error) : undefined}>
        <UserText text={letter.error ?? ""} />
      </td>
    </tr>
  );
}
