/** The inputs of the form. Each is named by its part of the draft. */
import { createContext, useContext } from "react";
import { Field, Input, TextArea } from "../../ui/controls";
import type { Draft } from "./draft";
import styles from "./ScheduleForm.module.css";
import type { Wrong } from "./useScheduleForm";

interface FormState {
  draft: Draft;
  change: (patch: Partial<Draft>) => void;
  wrong: Wrong;
}

export const FormContext = createContext<FormState | null>(null);

export function useForm(): FormState {
  const form = useContext(FormContext);
  if (!form) throw new Error("outside of the form");
  return form;
}

type TextName = { [K in keyof Draft]: string extends Draft[K] ? K : never }[keyof Draft];

interface TextFieldProps {
  name: TextName;
  label: string;
  hint?: string;
  type?: "text" | "datetime-local";
  inputMode?: "decimal" | "numeric";
  /** The id of a list of suggestions. */
  list?: string;
  disabled?: boolean;
  maxLength?: number;
  required?: boolean;
}

export function TextField({ name, label, hint, type = "text", required, ...rest }: TextFieldProps) {
  const { draft, change, wrong } = useForm();
  return (
    <Field label={label} hint={hint} error={wrong[name]} required={required}>
      {(wired) => (
        <Input
          {...wired}
          {...rest}
          type={type}
          autoComplete="off"
          value={draft[name]}
          onChange={(event) => change({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}

interface LinesFieldProps {
  name: TextName;
  label: string;
  hint: string;
  placeholder?: string;
}

/** An entry per line. */
export function LinesField({ name, label, hint, placeholder }: LinesFieldProps) {
  const { draft, change, wrong } = useForm();
  return (
    <Field label={label} hint={hint} error={wrong[name]}>
      {(wired) => (
        <TextArea
          {...wired}
          className="mono"
          rows={Math.min(Math.max(draft[name].split("\n").length, 2), 8)}
          spellCheck={false}
          placeholder={placeholder}
          value={draft[name]}
          onChange={(event) => change({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}

interface CheckFieldProps {
  name: "pauseOnFailure" | "paused";
  label: string;
}

export function CheckField({ name, label }: CheckFieldProps) {
  const { draft, change } = useForm();
  return (
    <label className={styles.check}>
      <input
        type="checkbox"
        checked={draft[name]}
        onChange={(event) => change({ [name]: event.target.checked })}
      />
      {label}
    </label>
  );
}
