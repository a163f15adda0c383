/** A dialog with inputs: Enter and the button do the same. */
import { type ReactNode, useRef } from "react";
import { useMessages } from "../i18n/messages";
import { Button } from "./controls";
import { Dialog } from "./Dialog";
import styles from "./Dialog.module.css";
import { ProblemBox } from "./feedback";
import { useFirstInvalid } from "./firstInvalid";
import { messages } from "./messages";

interface FormDialogProps {
  title: string;
  width?: number;
  /** The button that does it, and the one that does not. */
  confirm: string;
  back?: string;
  kind?: "primary" | "danger";
  /** Whether it cannot be sent now. */
  blocked?: boolean;
  /** Whether it is being sent: unlike a blocked button, this one keeps the focus. */
  isPending?: boolean;
  /** Shown above the inputs. */
  problem?: unknown;
  /** See `useFirstInvalid`. */
  refusal?: object | null;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function FormDialog(props: FormDialogProps) {
  const { title, width = 460, confirm, back, kind = "primary", blocked, isPending, problem, onClose } = props;
  const t = useMessages(messages);
  const form = useRef<HTMLFormElement>(null);
  useFirstInvalid(form, props.refusal);
  const submit = () => {
    if (!blocked && !isPending) props.onSubmit();
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      width={width}
      actions={
        <>
          <Button onClick={onClose}>{back ?? t("goBack")}</Button>
          <Button kind={kind} disabled={blocked} aria-disabled={isPending} onClick={submit}>
            {confirm}
          </Button>
        </>
      }
    >
      <form
        ref={form}
        className={styles.content}
        // The button, which is outside, does not ask the browser either.
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        {problem ? <ProblemBox problem={problem} /> : null}
        {props.children}
        {/* Enter in an input submits only a form that has a button for it. */}
        <button type="submit" hidden />
      </form>
    </Dialog>
  );
}
