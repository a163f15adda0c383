/** The editor as a form field, with label, actions and errors. */
import type { ReactNode, Ref } from "react";
import { joined } from "../ui/controls";
import { CodeEditor, type EditorHandle, type Mark } from "./CodeEditor";
import styles from "./Editor.module.css";
import type { Language } from "./highlight";

interface EditorFieldProps {
  label: string;
  hint: string;
  error?: string;
  language: Language;
  value: string;
  marks: readonly Mark[];
  onChange: (value: string) => void;
  onSubmit: () => void;
  actions: ReactNode;
  tall?: boolean;
  ref?: Ref<EditorHandle>;
  children?: ReactNode;
}

export function EditorField(props: EditorFieldProps) {
  const { label, hint, error, language, value, marks, onChange, onSubmit, actions, tall, ref, children } =
    props;
  return (
    <div className={styles.field}>
      <div className={styles.head}>
        <span className={styles.label} aria-hidden>
          {label}
        </span>
        <span className={styles.actions}>{actions}</span>
      </div>
      <div
        className={joined(styles.editor, tall && styles.tall, (error || marks.length > 0) && styles.wrong)}
        data-editor={language}
        data-invalid={error || marks.length > 0 ? true : undefined}
      >
        <CodeEditor
          ref={ref}
          label={`${label}. ${hint}`}
          language={language}
          value={value}
          marks={marks}
          onChange={onChange}
          onSubmit={onSubmit}
        />
      </div>
      {error ? (
        <p className={styles.error} role="alert">
          {error}
        </p>
      ) : (
        !children && <p className={styles.hint}>{hint}</p>
      )}
      {children || null}
    </div>
  );
}
