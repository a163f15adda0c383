/** A flow.yaml, with errors at their lines. */
import { FileUp } from "lucide-react";
import { type ChangeEvent, useRef } from "react";
import type { EditorHandle, Mark } from "../../editor/CodeEditor";
import { EditorField } from "../../editor/EditorField";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { Button } from "../../ui/controls";
import { change, draft, EXAMPLE_YAML } from "./draft";
import { messages } from "./messages";
import styles from "./Submit.module.css";

export function YamlField({ marks, onSubmit }: { marks: readonly Mark[]; onSubmit: () => void }) {
  const t = useMessages(messages);
  const { yaml } = useStore(draft);
  const editor = useRef<EditorHandle>(null);
  const file = useRef<HTMLInputElement>(null);
  const open = async ({ target }: ChangeEvent<HTMLInputElement>) => {
    const chosen = target.files?.[0];
    if (!chosen) return;
    // So that the same file can be chosen again.
    const text = await chosen.text();
    target.value = "";
    const name = chosen.name.replace(/\.ya?ml$/i, "");
    change({ yaml: text, ...(draft.get().flowName === "" && { flowName: name }) });
  };
  return (
    <EditorField
      tall
      ref={editor}
      label={t("yaml")}
      hint={t("yamlHint")}
      language="yaml"
      value={yaml}
      marks={marks}
      onChange={(value) => change({ yaml: value })}
      onSubmit={onSubmit}
      actions={
        <>
          {yaml.trim() === "" && (
            <Button kind="plain" onClick={() => change({ yaml: EXAMPLE_YAML })}>
              {t("example")}
            </Button>
          )}
          <Button kind="plain" onClick={() => file.current?.click()}>
            <FileUp size={14} aria-hidden />
            {t("openFile")}
          </Button>
          <input
            ref={file}
            type="file"
            accept=".yaml,.yml"
            aria-label={t("openFile")}
            tabIndex={-1}
            className="hidden-visually"
            onChange={open}
          />
        </>
      }
    >
      {marks.length > 0 && (
        <div className={styles.marks} role="alert">
          <p>{t("problemCount", { count: marks.length })}</p>
          <ul>
            {marks.map((mark) => (
              <li key={`${mark.line}:${mark.column} ${mark.message}`}>
                <button type="button" onClick={() => editor.current?.goTo(mark)}>
                  {t("place", { line: mark.line, column: mark.column })}
                </button>
                {mark.message}
              </li>
            ))}
          </ul>
        </div>
      )}
    </EditorField>
  );
}
