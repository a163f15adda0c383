import { useMessages } from "../../i18n/messages";
import { Segments } from "../../ui/controls";
import styles from "./Dlq.module.css";
import { messages } from "./messages";

export interface ReplayChoice {
  mode: "start" | "failed";
  delete: boolean;
}

interface ReplayOptionsProps {
  how: ReplayChoice;
  onChange: (how: ReplayChoice) => void;
  deleteLabel: string;
}

/** Where a replay starts, and whether the letter is deleted. */
export function ReplayOptions({ how, onChange, deleteLabel }: ReplayOptionsProps) {
  const t = useMessages(messages);
  return (
    <div className={styles.options}>
      <Segments
        label={t("mode")}
        value={how.mode}
        options={(["start", "failed"] as const).map((value) => ({ value, label: t(`mode.${value}`) }))}
        onChange={(mode) => onChange({ ...how, mode })}
      />
      <label className={styles.option}>
        <input
          type="checkbox"
          checked={how.delete}
          onChange={({ target }) => onChange({ ...how, delete: target.checked })}
        />
        {deleteLabel}
      </label>
    </div>
  );
}
