/** A form for a JSON Schema, as a controlled component. */
import { useMessages } from "../i18n/messages";
import { FieldView } from "./FieldView";
import type { Field } from "./fields";
import type { Json } from "./json";
import { messages } from "./messages";
import styles from "./SchemaForm.module.css";
import type { Problems } from "./validation";

interface SchemaFormProps {
  field: Field;
  value: Json | undefined;
  problems: Problems;
  onChange: (value: Json | undefined) => void;
}

export function SchemaForm({ field, value, problems, onChange }: SchemaFormProps) {
  const t = useMessages(messages);
  return (
    <div className={styles.form}>
      <FieldView
        field={field}
        label={field.title ?? t("answer")}
        required
        outermost
        path={[]}
        value={value}
        problems={problems}
        onChange={onChange}
      />
    </div>
  );
}
