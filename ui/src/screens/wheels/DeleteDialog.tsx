import { api } from "../../api/client";
import { useAct } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { showToast } from "../../ui/toasts";
import { messages } from "./messages";
import styles from "./Wheels.module.css";
import type { Wheel } from "./wheelName";

interface DeleteDialogProps {
  wheel: Wheel;
  /** Whether it is the last wheel of its package. */
  last: boolean;
  onClose: () => void;
}

export function DeleteDialog({ wheel: { name }, last, onClose }: DeleteDialogProps) {
  const t = useMessages(messages);
  const remove = useAct(
    () => api.DELETE("/wheels/{wheel_name}", { params: { path: { wheel_name: name } } }),
    {
      quiet: true,
      refresh: [["wheels"]],
      onDone: () => {
        showToast({ tone: "good", title: t("deleted", { wheel: name }) });
        onClose();
      },
    },
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("deleteTitle")}
      actions={
        <>
          <Button onClick={onClose}>{t("keepIt")}</Button>
          <Button kind="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>
            {t("doDelete")}
          </Button>
        </>
      }
    >
      <div className={styles.form}>
        {remove.error && <ProblemBox problem={remove.error} />}
        <p>
          <code className={styles.fileName}>{name}</code>
        </p>
        <p>{t("deleteText")}</p>
        {last && <p>{t("deleteLast")}</p>}
      </div>
    </Dialog>
  );
}
