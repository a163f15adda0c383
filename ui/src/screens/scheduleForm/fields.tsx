/** The inputs of the form. Each is named by its part of the draft. */

import { createContext, useContext } from "react";
import { CodeField, InputField } from "../../ui/fields";
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

export function TextField({ name, type = "text", ...rest }: TextFieldProps) {
  const { draft, change, wrong } = useForm();
  return (
    <InputField
      {...rest}
      type={type}
      error={wrong[name]}
      autoComplete="off"
      value={draft[name]}
      onChange={(value) => change({ [name]: value })}
    />
  );
}

interface LinesFieldProps {
  name: TextName;
  label: string;
  hint: string;
  placeholder?: string;
}

/** An entry per line. */
export function LinesField({ name, ...rest }: LinesFieldProps) {
  const { draft, change, wrong } = useForm();
  return (
    <CodeField
      {...rest}
      error={wrong[name]}
      rows={Math.min(Math.max(draft[name].split("\n").length, 2), 8)}
      value={draft[name]}
      onChange={(value) => change({ [name]: value })}
    />
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
