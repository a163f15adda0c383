/** What can be done with the runs that are marked. */
import { X } from "lucide-react";
import { useState } from "react";
import { api } from "../../api/client";
import { Problem } from "../../api/problem";
import { useMessages } from "../../i18n/messages";
import { Button, IconButton } from "../../ui/controls";
import { showToast } from "../../ui/toasts";
import { messages } from "./messages";
import styles from "./Runs.module.css";

const AT_ONCE = 6;

interface SelectionBarProps {
  selected: ReadonlySet<string>;
  onClear: () => void;
}

export function SelectionBar({ selected, onClear }: SelectionBarProps) {
  const t = useMessages(messages);
  const [busy, setBusy] = useState(false);
  if (selected.size === 0) return null;
  const act = async (action: "cancel" | "rerun") => {
    setBusy(true);
    const failures = await forEach([...selected], (run_id) =>
      action === "cancel"
        ? api.POST("/runs/{run_id}/cancel", { params: { path: { run_id } } })
        : api.POST("/runs/{run_id}/rerun", { params: { path: { run_id } } }),
    );
    setBusy(false);
    onClear();
    const count = selected.size - failures.length;
    if (count > 0)
      showToast({
        tone: "good",
        title: action === "cancel" ? t("doneCancel", { count }) : t("doneRerun", { count }),
      });
    if (failures[0])
      showToast({
        tone: "bad",
        title: t("someFailed", { count: failures.length, why: failures[0].message }),
      });
  };
  return (
    <section className={styles.selection} aria-label={t("selected", { count: selected.size })}>
      {t("selected", { count: selected.size })}
      <Button disabled={busy} onClick={() => void act("rerun")}>
        {t("rerun")}
      </Button>
      <Button kind="danger" disabled={busy} onClick={() => void act("cancel")}>
        {t("cancel")}
      </Button>
      <IconButton label={t("clearSelection")} icon={<X size={15} />} onClick={onClear} />
    </section>
  );
}

/** Some at a time; the failures of those that failed. */
async function forEach<T>(items: T[], act: (item: T) => Promise<unknown>): Promise<Problem[]> {
  const failures: Problem[] = [];
  const worker = async () => {
    for (let item = items.shift(); item !== undefined; item = items.shift())
      await act(item).catch((error: unknown) => failures.push(Problem.from(error)));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return failures;
}
