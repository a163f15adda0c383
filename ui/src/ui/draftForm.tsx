/** A form whose draft is texts by name; the names are those of the fields of the API. */

import { createContext, type ReactNode, useContext } from "react";
import type { Problem } from "../api/problem";
import { CodeField, InputField, SelectField } from "./fields";

export type Draft = Record<string, string>;
export type Wrong = Record<string, string>;

interface FormState {
  draft: Draft;
  change: (patch: Draft) => void;
  wrong: Wrong;
}

export const FormContext = createContext<FormState | null>(null);

export function useForm(): FormState {
  const form = useContext(FormContext);
  if (!form) throw new Error("outside of the form");
  return form;
}

export interface FieldErrors {
  wrong: Wrong;
  /** What belongs to no input. */
  rest: Problem | null;
}

/** Each error of the gateway at the input of its field; `signature.header` is at `header` if that is a name. */
export function errorsByField(problem: Problem | null, names: readonly string[]): FieldErrors {
  const wrong: Wrong = {};
  let hasRest = false;
  for (const { field, message } of problem?.fields ?? []) {
    const steps = field.split(/[.[\]]+/).filter(Boolean);
    const name = names.includes(field) ? field : steps.find((step) => names.includes(step));
    if (name === undefined) {
      hasRest = true;
      continue;
    }
    const text =
      field === name || steps.at(-1) === name ? message : `${steps.slice(1).join(".")}: ${message}`;
    wrong[name] = wrong[name] ? `${wrong[name]} ${text}` : text;
  }
  const isPlaced = problem !== null && problem.fields.length > 0 && !hasRest;
  return { wrong, rest: isPlaced ? null : problem };
}

export interface TextFieldProps {
  name: string;
  label: string;
  hint?: ReactNode;
  /** The id of a list of suggestions. */
  list?: string;
  type?: "text" | "password" | "datetime-local";
  inputMode?: "decimal" | "numeric" | "url";
  maxLength?: number;
  disabled?: boolean;
  placeholder?: string;
  required?: boolean;
}

export function TextField({ name, ...rest }: TextFieldProps) {
  const { draft, change, wrong } = useForm();
  return (
    <InputField
      {...rest}
      error={wrong[name]}
      autoComplete="off"
      value={draft[name] ?? ""}
      onChange={(value) => change({ [name]: value })}
    />
  );
}

export interface LinesFieldProps {
  name: string;
  label: string;
  hint?: ReactNode;
  placeholder?: string;
  rows?: number;
}

/** Text of several lines, such as JSON or one entry per line. */
export function LinesField({ name, rows = 2, ...rest }: LinesFieldProps) {
  const { draft, change, wrong } = useForm();
  const value = draft[name] ?? "";
  return (
    <CodeField
      {...rest}
      error={wrong[name]}
      rows={Math.min(Math.max(value.split("\n").length, rows), 14)}
      value={value}
      onChange={(next) => change({ [name]: next })}
    />
  );
}

interface ChoiceFieldProps<T extends string> {
  name: string;
  label: string;
  hint?: ReactNode;
  options: readonly T[];
  text: (option: T) => string;
  disabled?: boolean;
}

export function ChoiceField<T extends string>({ name, ...rest }: ChoiceFieldProps<T>) {
  const { draft, change, wrong } = useForm();
  return (
    <SelectField
      {...rest}
      error={wrong[name]}
      value={draft[name] ?? ""}
      onChange={(value) => change({ [name]: value })}
    />
  );
}
