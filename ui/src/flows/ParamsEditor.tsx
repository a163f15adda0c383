/** The params of a run: a form from the flow's JSON Schema, or JSON. */
import { useMemo, useState } from "react";
import { useMessages } from "../i18n/messages";
import { visible } from "../lib/visible";
import { type Field, fieldOf, isShown } from "../schemaForm/fields";
import type { Json, Schema } from "../schemaForm/json";
import { SchemaForm } from "../schemaForm/SchemaForm";
import type { Problems } from "../schemaForm/validation";
import { Segments } from "../ui/controls";
import { UserText } from "../ui/UserText";
import styles from "./Flows.module.css";
import { messages } from "./messages";

interface ParamsEditorProps {
  /** Null: not known. */
  schema: Schema | null;
  value: Json | undefined;
  problems: Problems;
  onChange: (value: Json | undefined) => void;
}

export function ParamsEditor({ schema, value, problems, onChange }: ParamsEditorProps) {
  const t = useMessages(messages);
  const form = useMemo(() => (schema === null ? null : fieldOf(schema)), [schema]);
  const hasForm = form !== null && form.shape.kind === "object";
  const [asJson, setAsJson] = useState(false);
  const json: Field = { shape: { kind: "json" }, title: t("params"), nullable: false };
  const field = hasForm && !asJson ? { ...form, title: t("params") } : json;
  const unplaced = [...problems].filter(([place]) => !isShown(field, place));
  if (form?.shape.kind === "json" && isWithoutParams(schema))
    return <p className={styles.soft}>{t("takesNone")}</p>;
  return (
    <div className={styles.params}>
      {hasForm && (
        <Segments
          label={t("paramsAs")}
          value={asJson ? "json" : "form"}
          options={[
            { value: "form", label: t("as.form") },
            { value: "json", label: t("as.json") },
          ]}
          onChange={(mode) => setAsJson(mode === "json")}
        />
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
      <SchemaForm field={field} value={value} problems={problems} onChange={onChange} />
    </div>
  );
}

function isWithoutParams(schema: Schema | null): boolean {
  if (schema === null || typeof schema === "boolean") return false;
  const { properties, additionalProperties } = schema;
  return additionalProperties === false && Object.keys((properties as object) ?? {}).length === 0;
}
