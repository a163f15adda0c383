/** Buttons, inputs and other controls. */
import type { ComponentProps, ReactNode } from "react";
import { useId } from "react";
import { useMessages } from "../i18n/messages";
import { useIsArmed } from "./arming";
import styles from "./controls.module.css";
import { messages } from "./messages";

type Kind = "normal" | "primary" | "danger" | "plain";

export const joined = (...names: (string | false | null | undefined)[]): string =>
  names.filter(Boolean).join(" ");

const buttonClass = (kind: Kind, iconOnly: boolean, className?: string) =>
  joined(styles.button, kind !== "normal" && styles[kind], iconOnly && styles.iconOnly, className);

interface ButtonProps extends ComponentProps<"button"> {
  kind?: Kind;
  /** It cannot be undone, although it does not look so: armed as a primary one is. */
  decides?: boolean;
}

export function Button({
  kind = "normal",
  decides = kind === "primary" || kind === "danger",
  className,
  type = "button",
  onClick,
  "aria-disabled": disabled,
  ...rest
}: ButtonProps) {
  const isArmed = useIsArmed();
  const waits = !isArmed && decides;
  return (
    <button
      type={type}
      className={buttonClass(kind, false, className)}
      aria-disabled={waits || disabled}
      data-arming={waits || undefined}
      // A submit button does not submit either.
      onClick={waits ? (event) => event.preventDefault() : onClick}
      {...rest}
    />
  );
}

interface IconButtonProps extends Omit<ButtonProps, "children" | "decides"> {
  /** Announced, and shown on hover. */
  label: string;
  icon: ReactNode;
}

export function IconButton({
  kind = "plain",
  label,
  icon,
  className,
  type = "button",
  ...rest
}: IconButtonProps) {
  return (
    <button
      type={type}
      className={buttonClass(kind, true, className)}
      aria-label={label}
      title={label}
      {...rest}
    >
      {icon}
    </button>
  );
}

/** A link that looks like a button. */
export function ButtonLink({ kind = "normal", className, ...rest }: ComponentProps<"a"> & { kind?: Kind }) {
  return <a className={buttonClass(kind, false, className)} {...rest} />;
}

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={joined(styles.input, className)} {...rest} />;
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea className={joined(styles.input, className)} {...rest} />;
}

export function Select({ className, ...rest }: ComponentProps<"select">) {
  return <select className={joined(styles.input, className)} {...rest} />;
}

interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  /** Whether the form is refused without it: said before anybody tries. */
  required?: boolean;
  /** The control; receives the id and the ids of its descriptions. */
  children: (wired: Wired) => ReactNode;
}

interface Wired {
  id: string;
  "aria-describedby"?: string;
  "aria-invalid"?: boolean;
  "aria-required"?: boolean;
}

/** A control with its label, and a hint or an error. */
export function Field({ label, hint, error, required, children }: FieldProps) {
  const t = useMessages(messages);
  const id = useId();
  const note = error || hint ? `${id}-note` : undefined;
  return (
    <div className={styles.field}>
      <span className={styles.labelLine}>
        <label className={styles.label} htmlFor={id}>
          {label}
        </label>
        {required && (
          // Those who do not see it hear that the control is required.
          <span className={styles.required} aria-hidden data-required>
            {t("required")}
          </span>
        )}
      </span>
      {children({
        id,
        "aria-describedby": note,
        "aria-invalid": error ? true : undefined,
        "aria-required": required || undefined,
      })}
      {error ? (
        <p id={note} className={styles.error} role="alert">
          {error}
        </p>
      ) : (
        hint && (
          <p id={note} className={styles.hint}>
            {hint}
          </p>
        )
      )}
    </div>
  );
}

interface SegmentsProps<T extends string> {
  label: string;
  value: T;
  options: readonly { value: T; label: string; icon?: ReactNode }[];
  onChange: (value: T) => void;
}

/** One of a few visible choices. */
export function Segments<T extends string>({ label, value, options, onChange }: SegmentsProps<T>) {
  const name = useId();
  return (
    <div className={styles.segments} role="radiogroup" aria-label={label}>
      {options.map((option) => (
        <label key={option.value} className={styles.segment}>
          <input
            type="radio"
            name={name}
            checked={option.value === value}
            onChange={() => onChange(option.value)}
          />
          {option.icon}
          {option.label}
        </label>
      ))}
    </div>
  );
}

export function Kbd({ children }: { children: ReactNode }) {
  return <kbd className={styles.kbd}>{children}</kbd>;
}
