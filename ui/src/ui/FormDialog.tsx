/** A dialog with inputs: Enter and the button do the same. */
import type { ReactNode } from "react";
import { useMessages } from "../i18n/messages";
import { Button } from "./controls";
import { Dialog } from "./Dialog";
import styles from "./Dialog.module.css";
import { ProblemBox } from "./feedback";
import { messages } from "./messages";

interface FormDialogProps {
  title: string;
  width?: number;
  /** The button that does it, and the one that does not. */
  confirm: string;
  back?: string;
  kind?: "primary" | "danger";
  /** Whether it cannot be sent now. */
  blocked: boolean;
  /** Shown above the inputs. */
  problem?: unknown;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function FormDialog(props: FormDialogProps) {
  const { title, width = 460, confirm, back, kind = "primary", blocked, problem, onSubmit, onClose } = props;
  const t = useMessages(messages);
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      width={width}
      actions={
        <>
          <Button onClick={onClose}>{back ?? t("goBack")}</Button>
          <Button kind={kind} disabled={blocked} onClick={onSubmit}>
            {confirm}
          </Button>
        </>
      }
    >
      <form
        className={styles.content}
        onSubmit={(event) => {
          event.preventDefault();
          if (!blocked) onSubmit();
        }}
      >
        {problem ? <ProblemBox problem={problem} /> : null}
        {props.children}
      </form>
    </Dialog>
  );
}
