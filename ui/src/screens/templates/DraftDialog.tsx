/** The frame of the forms of templates and of actions: both are dialogs. */
import { type ReactNode, useRef } from "react";
import type { Problem } from "../../api/problem";
import { useMessages } from "../../i18n/messages";
import styles from "../../triggers/Triggers.module.css";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { useFirstInvalid } from "../../ui/firstInvalid";
import { messages as common } from "../../ui/messages";

interface DraftDialogProps {
  title: string;
  isPending: boolean;
  /** What belongs to no input. */
  problem: Problem | null;
  /** See `useFirstInvalid`. */
  refusal: object | null;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function DraftDialog(props: DraftDialogProps) {
  const { title, isPending, problem, refusal, onSubmit, onClose, children } = props;
  const c = useMessages(common);
  const form = useRef<HTMLFormElement>(null);
  useFirstInvalid(form, refusal);
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      width={640}
      actions={
        <>
          <Button onClick={onClose}>{c("goBack")}</Button>
          <Button kind="primary" aria-disabled={isPending} onClick={onSubmit}>
            {isPending ? c("saving") : c("save")}
          </Button>
        </>
      }
    >
      <form
        ref={form}
        className={styles.fields}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {problem && <ProblemBox problem={problem} />}
        {children}
        {/* Enter in an input submits only a form that has a button for it. */}
        <button type="submit" hidden />
      </form>
    </Dialog>
  );
}
