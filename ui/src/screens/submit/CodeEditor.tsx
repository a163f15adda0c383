/** An editor for YAML and JSON with error markers.
 *
 * It is in a shadow root: its styles are adopted style sheets there, which the page's policy allows, and not
 * <style> elements, which it forbids.
 */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { Annotation, Compartment, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type Ref, useEffect, useImperativeHandle, useRef } from "react";
import type { Mark } from "./submission";

export interface EditorHandle {
  goTo: (mark: Mark) => void;
}

interface CodeEditorProps {
  label: string;
  /** Fixed for the life of the editor. */
  language: "yaml" | "json";
  value: string;
  marks: readonly Mark[];
  onChange: (value: string) => void;
  /** Ctrl or Cmd and Enter. */
  onSubmit: () => void;
  className?: string;
  ref?: Ref<EditorHandle>;
}

const FROM_OUTSIDE = Annotation.define<boolean>();

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", background: "var(--surface)", fontSize: "var(--size-sm)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { background: "var(--surface)", color: "var(--text-faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { background: "transparent" },
  "&.cm-focused .cm-activeLine, &.cm-focused .cm-activeLineGutter": {
    background: "color-mix(in srgb, var(--hover) 70%, transparent)",
  },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--accent-soft)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { background: "var(--selected)" },
  ".cm-tooltip": {
    background: "var(--surface)",
    color: "var(--text)",
    border: "1px solid var(--line-strong)",
    borderRadius: "var(--radius-sm)",
    boxShadow: "var(--shadow)",
    maxWidth: "min(560px, 80vw)",
    fontFamily: "var(--sans)",
  },
  ".cm-diagnostic-error": { borderLeftColor: "var(--failed)" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--failed)",
    textUnderlineOffset: "3px",
  },
  ".cm-lint-marker-error": {
    content: "''",
    width: "8px",
    height: "8px",
    margin: "0.4em 2px",
    borderRadius: "50%",
    background: "var(--failed)",
  },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.content, tags.special(tags.string)], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--running)" },
  { tag: tags.comment, color: "var(--text-faint)", fontStyle: "italic" },
  { tag: [tags.keyword, tags.typeName, tags.labelName], color: "var(--waiting)" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--text-soft)" },
]);

/** Typing over a selection: Chromium would keep its style inline, which the policy forbids. */
const typingOver = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const isOverNothing = view.state.selection.main.empty;
    if (event.inputType !== "insertText" || event.data === null || isOverNothing) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type" });
    event.preventDefault();
    return true;
  },
});

export default function CodeEditor(props: CodeEditorProps) {
  const { label, language, value, marks, onChange, onSubmit, className, ref } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const words = useRef(new Compartment());
  const submit = () => {
    onSubmit();
    return true;
  };
  const latest = useRef({ onChange, submit });
  latest.current = { onChange, submit };

  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const editor = new EditorView({
      root,
      parent: root,
      extensions: [
        lineNumbers(),
        lintGutter(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        EditorView.lineWrapping,
        language === "yaml" ? yaml() : json(),
        typingOver,
        theme,
        syntaxHighlighting(colours),
        words.current.of([]),
        keymap.of([
          { key: "Mod-Enter", run: () => latest.current.submit() },
          ...defaultKeymap,
          ...historyKeymap,
        ]),
        EditorView.updateListener.of((update) => {
          const ours = update.transactions.some((each) => each.annotation(FROM_OUTSIDE));
          if (update.docChanged && !ours) latest.current.onChange(update.state.doc.toString());
        }),
      ],
    });
    view.current = editor;
    return () => {
      view.current = null;
      editor.destroy();
    };
  }, [language]);

  useEffect(() => {
    const attributes = EditorView.contentAttributes.of({ "aria-label": label });
    view.current?.dispatch({ effects: words.current.reconfigure(attributes) });
  }, [label]);

  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === value) return;
    editor.dispatch({
      changes: { from: 0, to: editor.state.doc.length, insert: value },
      annotations: FROM_OUTSIDE.of(true),
    });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (editor)
      editor.dispatch(
        setDiagnostics(
          editor.state,
          marks.map((mark) => diagnostic(editor.state.doc, mark)),
        ),
      );
  }, [marks]);

  useImperativeHandle(ref, () => ({
    goTo: (mark) => {
      const editor = view.current;
      if (!editor) return;
      const anchor = diagnostic(editor.state.doc, mark).from;
      editor.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
      editor.focus();
    },
  }));

  return <div ref={host} className={className} />;
}

/** From the position to the end of the word, at least one character, or the whole line if it is empty. */
function diagnostic(text: Text, { line, column, message }: Mark): Diagnostic {
  const at = text.line(Math.min(Math.max(line, 1), text.lines));
  const from = Math.min(at.from + Math.max(column, 1) - 1, at.to);
  const word = /^\s*[^\s:,\]}]+|^./.exec(text.sliceString(from, at.to));
  const to = from + (word?.[0].length ?? 0);
  return { from: to > from ? from : at.from, to: to > from ? to : at.to, severity: "error", message };
}
