/** Input of an answer: a form from its schema, or JSON. */
import { useMemo } from "react";
import { useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { type Field, fieldOf, isShown } from "../../schemaForm/fields";
import type { Json, Schema } from "../../schemaForm/json";
import { valueKinds } from "../../schemaForm/outline";
import { resolved } from "../../schemaForm/references";
import { SchemaForm } from "../../schemaForm/SchemaForm";
import { KeptTexts, type TypedTexts } from "../../schemaForm/typedText";
import type { Problems } from "../../schemaForm/validation";
import { joined, Segments } from "../../ui/controls";
import { UserText } from "../../ui/UserText";
import styles from "./Answer.module.css";
import { messages } from "./messages";

type Mode = "form" | "text" | "yesNo" | "json";

interface AnswerEditorProps {
  /** Null: any JSON is valid. */
  schema: Schema | null;
  value: Json | undefined;
  problems: Problems;
  onChange: (value: Json | undefined) => void;
  /** The chosen mode. */
  mode: string | undefined;
  onMode: (mode: string) => void;
  /** Where typed text is stored. */
  texts: TypedTexts;
}

const AS_JSON: Field = { shape: { kind: "json" }, nullable: false };
const AS_TEXT: Field = { shape: { kind: "text", as: "multiline" }, nullable: false };
const AS_YES_NO: Field = { shape: { kind: "boolean" }, nullable: false };

export function inputModes(schema: Schema | null): { form: Field | null; json: Field } {
  if (schema === null || schema === true) return { form: null, json: AS_JSON };
  const form = fieldOf(schema);
  if (form.shape.kind === "json") return { form, json: form };
  const takes = valueKinds(resolved(schema, schema), schema);
  return { form, json: { shape: { kind: "json", takes }, description: form.description, nullable: false } };
}

export function AnswerEditor({ schema, value, problems, onChange, mode, onMode, texts }: AnswerEditorProps) {
  const t = useMessages(messages);
  const { form, json } = useMemo(() => inputModes(schema), [schema]);
  const modes: Mode[] =
    form === null ? ["text", "yesNo", "json"] : form.shape.kind === "json" ? ["json"] : ["form", "json"];
  const chosen = modes.find((each) => each === mode) ?? modes[0] ?? "json";
  const fields: Record<Mode, Field> = {
    form: form ?? AS_JSON,
    text: AS_TEXT,
    yesNo: AS_YES_NO,
    json,
  };
  const choose = (mode: Mode) => {
    onMode(mode);
    // A text is not a yes, and a yes is not a text; JSON keeps either.
    if (form === null && mode !== "json") onChange(undefined);
  };
  const unplaced = [...problems].filter(([place]) => !isShown(fields[chosen], place));
  return (
    <div className={styles.editor}>
      {modes.length > 1 && (
        <div className={joined(styles.modes, problems.has("") && styles.aboveProblem)}>
          <Segments
            label={t("answerAs")}
            value={chosen}
            options={modes.map((mode) => ({ value: mode, label: t(`mode.${mode}`) }))}
            onChange={choose}
          />
        </div>
      )}
      {unplaced.length > 0 && (
        <ul className={styles.unplaced} role="alert">
          {unplaced.map(([place, message]) => (
            <li key={place}>
              {place && <code>{visible(place)}</code>} <UserText text={message} />
            </li>
          ))}
        </ul>
      )}
      <KeptTexts value={texts}>
        <SchemaForm field={fields[chosen]} value={value} problems={problems} onChange={onChange} />
      </KeptTexts>
    </div>
  );
}
