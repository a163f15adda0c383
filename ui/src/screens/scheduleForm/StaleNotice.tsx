import { TriangleAlert } from "lucide-react";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/controls";
import { messages } from "./messages";
import styles from "./ScheduleForm.module.css";

/** Somebody else has changed the schedule since it was opened. */
export function StaleNotice({ onReload, busy }: { onReload: () => void; busy: boolean }) {
  const t = useMessages(messages);
  return (
    <div className={styles.stale} role="alert">
      <TriangleAlert size={16} aria-hidden />
      <div>
        <strong>{t("staleTitle")}</strong>
        <p>{t("staleText")}</p>
      </div>
      <Button disabled={busy} onClick={onReload}>
        {t("staleReload")}
      </Button>
    </div>
  );
}
