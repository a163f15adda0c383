/** The actions on selected letters. */
import { X } from "lucide-react";
import { useMessages } from "../../i18n/messages";
import { Button, IconButton } from "../../ui/controls";
import type { BulkAction } from "./BulkDialog";
import styles from "./Dlq.module.css";
import type { Letter } from "./letters";
import { messages } from "./messages";

interface LetterSelectionProps {
  letters: readonly Letter[];
  onAct: (action: BulkAction, letters: readonly Letter[]) => void;
  onClear: () => void;
}

export function LetterSelection({ letters, onAct, onClear }: LetterSelectionProps) {
  const t = useMessages(messages);
  const replayable = letters.filter((each) => each.replayable);
  if (letters.length === 0) return null;
  const selected = t("selected", { count: letters.length });
  return (
    <section className={styles.selection} aria-label={selected}>
      {selected}
      <Button disabled={replayable.length === 0} onClick={() => onAct("replay", replayable)}>
        {t("replaySelected", { count: replayable.length })}
      </Button>
      <Button kind="danger" onClick={() => onAct("delete", letters)}>
        {t("deleteSelected", { count: letters.length })}
      </Button>
      <IconButton label={t("clearSelection")} icon={<X size={15} aria-hidden />} onClick={onClear} />
    </section>
  );
}
