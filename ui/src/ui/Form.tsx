/** A form that checks its inputs itself: Ctrl or Cmd with Enter submits it from every input. */
import { type ReactNode, useRef } from "react";
import { useFirstInvalid } from "./firstInvalid";
import { onSendShortcut } from "./sendShortcut";

interface FormProps {
  className?: string;
  /** Another value for each refusal; null: none. The first invalid input then has the focus. */
  refusal: unknown;
  onSubmit: () => void;
  children: ReactNode;
}

export function Form({ className, refusal, onSubmit, children }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  useFirstInvalid(form, refusal);
  return (
    <form
      ref={form}
      className={className}
      noValidate
      onKeyDown={onSendShortcut(onSubmit)}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {children}
    </form>
  );
}
