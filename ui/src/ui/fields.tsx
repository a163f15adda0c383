/** Fields whose control is one input: the label, the hint or error, and the value. */
import type { ComponentProps, ReactNode } from "react";
import { Field, Input, Select, TextArea } from "./controls";

interface Described {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  required?: boolean;
  value: string;
  onChange: (value: string) => void;
}

type Rest<T extends "input" | "textarea" | "select"> = Omit<
  ComponentProps<T>,
  keyof Described | "id" | "children"
>;

export function InputField({ label, hint, error, required, onChange, ...rest }: Described & Rest<"input">) {
  return (
    <Field label={label} hint={hint} error={error} required={required}>
      {(wired) => <Input {...wired} {...rest} onChange={({ target }) => onChange(target.value)} />}
    </Field>
  );
}

/** Text of several lines that is JSON, or one entry per line. */
export function CodeField({ label, hint, error, required, onChange, ...rest }: Described & Rest<"textarea">) {
  return (
    <Field label={label} hint={hint} error={error} required={required}>
      {(wired) => (
        <TextArea
          {...wired}
          {...rest}
          className="mono"
          spellCheck={false}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
    </Field>
  );
}

interface SelectFieldProps<T extends string> extends Omit<Described, "onChange" | "required"> {
  options: readonly T[];
  text: (option: T) => string;
  /** The text of an empty first option. */
  none?: string;
  disabled?: boolean;
  onChange: (value: string) => void;
}

export function SelectField<T extends string>(props: SelectFieldProps<T>) {
  const { label, hint, error, options, text, none, onChange, ...rest } = props;
  return (
    <Field label={label} hint={hint} error={error}>
      {(wired) => (
        <Select {...wired} {...rest} onChange={({ target }) => onChange(target.value)}>
          {none !== undefined && <option value="">{none}</option>}
          {options.map((option) => (
            <option key={option} value={option}>
              {text(option)}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}
