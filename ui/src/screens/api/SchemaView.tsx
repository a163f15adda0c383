/** The properties of a schema; those of a nested record when it is opened, since records may be recursive. */
import { useState } from "react";
import { useMessages } from "../../i18n/messages";
import { jsonText } from "../../lib/exactJson";
import type { Schema } from "../../schemaForm/json";
import { isParts, type Parts, resolved, text } from "../../schemaForm/references";
import styles from "./Api.module.css";
import { type Document, objectsIn, typeName } from "./document";
import { Marked } from "./Marked";
import { messages } from "./messages";

interface SchemaProps {
  schema: Schema;
  document: Document;
  /** Show the description of the schema itself. */
  described?: boolean;
}

export function SchemaView({ schema, document, described = false }: SchemaProps) {
  const said = described ? text(resolved(schema, document).description) : undefined;
  const objects = objectsIn(schema, document);
  return (
    <>
      {said && (
        <p>
          <Marked text={said} />
        </p>
      )}
      {objects.map((parts) => (
        <div key={String(parts.title)}>
          {objects.length > 1 && <h3 className={styles.record}>{String(parts.title ?? "")}</h3>}
          <Properties parts={parts} document={document} />
        </div>
      ))}
    </>
  );
}

function Properties({ parts, document }: { parts: Parts; document: Document }) {
  const required = Array.isArray(parts.required) ? parts.required : [];
  const properties = isParts(parts.properties) ? Object.entries(parts.properties) : [];
  return (
    <dl className={styles.properties}>
      {properties.map(([name, schema]) => (
        <Property
          key={name}
          name={name}
          schema={schema as Schema}
          required={required.includes(name)}
          document={document}
        />
      ))}
    </dl>
  );
}

interface PropertyProps {
  name: string;
  schema: Schema;
  required: boolean;
  document: Document;
}

function Property({ name, schema, required, document }: PropertyProps) {
  const t = useMessages(messages);
  const [open, setOpen] = useState(false);
  const parts = resolved(schema, document);
  // The description of a nested record is that of the record.
  const said = text(parts.description) ?? text(firstOf(parts)?.description);
  const nested = objectsIn(schema, document).length > 0;
  return (
    <div>
      <dt>
        <code>{name}</code> <span className={styles.type}>{typeName(schema, document)}</span>
        {required && <span className={styles.required}>{t("required")}</span>}
        {parts.default !== undefined && parts.default !== null && (
          <span className={styles.soft}> {t("default", { value: jsonText(parts.default) })}</span>
        )}
      </dt>
      {(said || nested) && (
        <dd>
          {said && <Marked text={said} />}
          {nested && (
            <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
              <summary>{typeName(schema, document)}</summary>
              {open && <SchemaView schema={schema} document={document} />}
            </details>
          )}
        </dd>
      )}
    </div>
  );
}

const firstOf = (parts: Parts): Parts | undefined => {
  const [first] = Array.isArray(parts.anyOf) ? parts.anyOf : [];
  return isParts(first) ? first : undefined;
};
