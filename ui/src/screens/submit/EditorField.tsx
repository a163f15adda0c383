/** The editor as a form field, with label, actions and errors. */
import type { ReactNode, Ref } from "react";
import { loadPart, usePart } from "../../app/loading";
import { joined } from "../../ui/controls";
import { Skeleton } from "../../ui/feedback";
import type { EditorHandle } from "./CodeEditor";
import styles from "./Submit.module.css";
import type { Mark } from "./submission";

// The editor is larger than the rest of the screen, which does not wait for it.
const loadEditor = () => import("./CodeEditor");
loadPart(loadEditor).catch(() => undefined);

interface EditorFieldProps {
  label: string;
  hint: string;
  error?: string;
  language: "yaml" | "json";
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
  const editor = usePart(loadEditor);
  return (
    <div className={styles.editorField}>
      <div className={styles.editorHead}>
        {/* The editor labels itself: a label cannot point into it. */}
        <span className={styles.label} aria-hidden>
          {label}
        </span>
        <span className={styles.editorActions}>{actions}</span>
      </div>
      <div
        className={joined(styles.editor, tall && styles.tall, (error || marks.length > 0) && styles.wrong)}
        data-editor={language}
        data-invalid={error || marks.length > 0 ? true : undefined}
      >
        {editor ? (
          <editor.default
            ref={ref}
            className={styles.code}
            label={`${label}. ${hint}`}
            language={language}
            value={value}
            marks={marks}
            onChange={onChange}
            onSubmit={onSubmit}
          />
        ) : (
          <div className={styles.loading}>
            <Skeleton width={160} />
          </div>
        )}
      </div>
      {error ? (
        <p className={styles.error} role="alert">
          {error}
        </p>
      ) : (
        !children && <p className={styles.soft}>{hint}</p>
      )}
      {children || null}
    </div>
  );
}
