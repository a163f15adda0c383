/** A question before something that cannot be undone. */
import type { ReactNode } from "react";
import { useAct } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { Button } from "./controls";
import { Dialog } from "./Dialog";
import styles from "./Dialog.module.css";
import { ProblemBox } from "./feedback";
import { messages } from "./messages";

interface ConfirmDialogProps<T> {
  title: string;
  width?: number;
  text: string;
  /** The button that does it, and the one that does not. */
  confirm: string;
  back?: string;
  kind?: "primary" | "danger";
  /** What to refetch afterwards. */
  refresh: string[][];
  act: () => Promise<{ data?: T }>;
  onDone: (answer: T) => void;
  onClose: () => void;
  children?: ReactNode;
}

export function ConfirmDialog<T>(props: ConfirmDialogProps<T>) {
  const {
    title,
    width = 460,
    text,
    confirm,
    back,
    kind = "danger",
    refresh,
    act,
    onDone,
    onClose,
    children,
  } = props;
  const t = useMessages(messages);
  const action = useAct(act, {
    quiet: true,
    refresh,
    onDone: (answer) => {
      onClose();
      onDone(answer);
    },
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      width={width}
      actions={
        <>
          <Button onClick={onClose}>{back ?? t("goBack")}</Button>
          <Button kind={kind} disabled={action.isPending} onClick={() => action.mutate()}>
            {confirm}
          </Button>
        </>
      }
    >
      <div className={styles.content}>
        {action.error && <ProblemBox problem={action.error} />}
        <p>{text}</p>
        {children}
      </div>
    </Dialog>
  );
}
