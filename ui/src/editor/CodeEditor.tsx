/** A text area for YAML and JSON with line numbers, colours and error markers.
 *
 * The text area is transparent and lies over the same text in colours, which gives both their height: typing,
 * undo, input methods and screen readers are the browser's own.
 */
import { type KeyboardEvent, memo, type Ref, useImperativeHandle, useMemo, useRef } from "react";
import { joined } from "../ui/controls";
import styles from "./Editor.module.css";
import { type Language, type Piece, pieces, rangeOf } from "./highlight";

/** A position in a text, counted from 1. */
export interface Place {
  line: number;
  column: number;
}

export interface Mark extends Place {
  message: string;
}

export interface EditorHandle {
  goTo: (mark: Mark) => void;
}

interface CodeEditorProps {
  label: string;
  language: Language;
  value: string;
  marks: readonly Mark[];
  onChange: (value: string) => void;
  /** Ctrl or Cmd and Enter. */
  onSubmit: () => void;
  ref?: Ref<EditorHandle>;
}

export function CodeEditor({ label, language, value, marks, onChange, onSubmit, ref }: CodeEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = useMemo(() => value.split("\n"), [value]);
  const width = String(lines.length).length;

  useImperativeHandle(ref, () => ({
    goTo: (mark) => {
      const editor = area.current;
      const line = Math.min(Math.max(mark.line, 1), lines.length);
      const before = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
      const { from } = rangeOf(lines[line - 1] ?? "", mark.column);
      if (!editor) return;
      editor.focus();
      editor.setSelectionRange(before + from, before + from);
      editor.parentElement?.querySelectorAll("[data-line]")[line - 1]?.scrollIntoView({ block: "nearest" });
    },
  }));

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key !== "Enter" || event.nativeEvent.isComposing) return;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      // The form around it listens for the same keys.
      event.stopPropagation();
      onSubmit();
    } else if (!event.shiftKey && !event.altKey) {
      const { selectionStart, value: text } = event.currentTarget;
      const line = text.slice(text.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
      const indent = /^[ \t]*/.exec(line)?.[0] ?? "";
      // Unlike a new value it can be undone.
      if (indent && document.execCommand("insertText", false, `\n${indent}`)) event.preventDefault();
    }
  };
  return (
    <div className={styles.scroller}>
      <div className={joined(styles.sheet, width > 2 && styles.wideGutter)}>
        <pre className={styles.text} aria-hidden>
          {lines.map((text, index) => (
            <Line
              // biome-ignore lint/suspicious/noArrayIndexKey: a line is its number.
              key={index}
              text={text}
              language={language}
              mark={marks.find(({ line }) => line === index + 1)}
            />
          ))}
        </pre>
        <textarea
          ref={area}
          className={styles.text}
          aria-label={label}
          aria-invalid={marks.length > 0 || undefined}
          spellCheck={false}
          autoCapitalize="off"
          autoComplete="off"
          value={value}
          onChange={(event) => onChange(event.target.value)}
          onKeyDown={onKeyDown}
        />
      </div>
    </div>
  );
}

const Line = memo(({ text, language, mark }: { text: string; language: Language; mark?: Mark }) => (
  <div data-line className={joined(styles.line, mark && styles.marked)}>
    {pieces(text, language, mark && rangeOf(text, mark.column)).map((piece, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no other identity.
      <Coloured key={index} {...piece} />
    ))}
    {/* An empty line has a height. */}
    {text === "" && "\n"}
  </div>
));

function Coloured({ text, kind, isWrong }: Piece) {
  if (kind === "plain" && !isWrong) return text;
  return (
    <span className={joined(styles[kind], isWrong && styles.wrongText)} data-wrong={isWrong}>
      {text}
    </span>
  );
}
