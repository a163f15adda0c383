/** A form that sends the operation to this gateway, and shows the response and the same request for curl. */
import { Play, Square } from "lucide-react";
import { type FormEvent, useState } from "react";
import { apiKey } from "../../api/apiKey";
import { apiKeyHeader, wantsApiKey } from "../../app/pageConfig";
import { useMessages } from "../../i18n/messages";
import { jsonText } from "../../lib/exactJson";
import { useStore } from "../../lib/store";
import { CopyButton } from "../../ui/Copy";
import { Button, ButtonLink, Field, Input, Select, TextArea } from "../../ui/controls";
import { Card } from "../../ui/Page";
import styles from "./Api.module.css";
import { Code } from "./Code";
import {
  choicesOf,
  type Document,
  exampleOf,
  FORM_TYPE,
  JSON_TYPE,
  type Operation,
  type Parameter,
} from "./document";
import { formFields } from "./formFields";
import { messages } from "./messages";
import { ResponseView } from "./ResponseView";
import { curlOf, type Entered, keyOf, missing, NOTHING, requestOf } from "./request";
import { useSending } from "./useSending";

interface TryItProps {
  operation: Operation;
  document: Document;
}

export function TryIt({ operation, document }: TryItProps) {
  const t = useMessages(messages);
  const { body } = operation;
  const [entered, setEntered] = useState<Entered>(() => ({
    ...NOTHING,
    body:
      body?.type === JSON_TYPE && body.required ? jsonText(exampleOf(body.schema, document, true), 2) : "",
  }));
  const [tried, setTried] = useState(false);
  const { response, sending, send, stop } = useSending();
  const key = useStore(apiKey);
  const absent = missing(operation, entered);
  const problem = body?.type === JSON_TYPE ? jsonProblem(entered.body) : null;
  const keyHeader = operation.scopes.length > 0 && (wantsApiKey || key) ? apiKeyHeader : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (absent.length === 0 && problem === null)
      void send(requestOf(operation, entered, window.location.origin));
  };
  return (
    <Card title={t("tryIt")}>
      <form className={styles.form} onSubmit={submit} aria-label={t("tryIt")}>
        <p className={styles.soft}>{t("tryItText")}</p>
        {wantsApiKey && !key && operation.scopes.length > 0 && (
          <p className={styles.keyMissing}>
            {t("keyMissing")} <ButtonLink href="#/settings">{t("openSettings")}</ButtonLink>
          </p>
        )}
        <div className={styles.inputs}>
          {operation.parameters.map((parameter) => (
            <ParameterField
              key={keyOf(parameter)}
              parameter={parameter}
              document={document}
              value={entered.parameters[keyOf(parameter)] ?? ""}
              error={tried && absent.includes(parameter.name) ? t("isRequired") : null}
              onChange={(value) =>
                setEntered((before) => ({
                  ...before,
                  parameters: { ...before.parameters, [keyOf(parameter)]: value },
                }))
              }
            />
          ))}
          {body?.type === FORM_TYPE && (
            <FormFields
              fields={formFields(body.schema, document)}
              texts={entered.fields}
              onText={(name, text) =>
                setEntered((before) => ({ ...before, fields: { ...before.fields, [name]: text } }))
              }
              onFile={(name, file) => setEntered((before) => withFile(before, name, file))}
            />
          )}
        </div>
        {body?.type === JSON_TYPE && (
          <JsonBody
            text={entered.body}
            problem={problem}
            onChange={(text) => setEntered((before) => ({ ...before, body: text }))}
          />
        )}
        <div className={styles.send}>
          <Button type="submit" kind="primary" disabled={sending}>
            <Play size={14} aria-hidden />
            {t("send")}
          </Button>
          {sending && (
            <Button onClick={stop}>
              <Square size={13} aria-hidden />
              {t("stop")}
            </Button>
          )}
        </div>
      </form>
      <Curl text={curlOf(operation, entered, window.location.origin, keyHeader)} />
      {(response || sending) && <ResponseView response={response} sending={sending} />}
    </Card>
  );
}

function jsonProblem(text: string): string | null {
  if (!text.trim()) return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function withFile(before: Entered, name: string, file: File | undefined): Entered {
  const { [name]: _, ...others } = before.files;
  return { ...before, files: file ? { ...others, [name]: file } : others };
}

interface ParameterFieldProps {
  parameter: Parameter;
  document: Document;
  value: string;
  error: string | null;
  onChange: (value: string) => void;
}

function ParameterField({ parameter, document, value, error, onChange }: ParameterFieldProps) {
  const t = useMessages(messages);
  const choices = choicesOf(parameter.schema, document);
  return (
    <Field label={parameter.name} error={error} required={parameter.required}>
      {(wired) =>
        choices.length > 0 ? (
          <Select {...wired} value={value} onChange={({ target }) => onChange(target.value)}>
            <option value="">{t("notSet")}</option>
            {choices.map((choice) => (
              <option key={choice}>{choice}</option>
            ))}
          </Select>
        ) : (
          <Input {...wired} value={value} onChange={({ target }) => onChange(target.value)} />
        )
      }
    </Field>
  );
}

interface FormFieldsProps {
  fields: ReturnType<typeof formFields>;
  texts: Entered["fields"];
  onText: (name: string, text: string) => void;
  onFile: (name: string, file: File | undefined) => void;
}

function FormFields({ fields, texts, onText, onFile }: FormFieldsProps) {
  return fields.map(({ name, isFile }) => (
    <Field key={name} label={name}>
      {(wired) =>
        isFile ? (
          <Input {...wired} type="file" onChange={({ target }) => onFile(name, target.files?.[0])} />
        ) : (
          <Input {...wired} value={texts[name] ?? ""} onChange={({ target }) => onText(name, target.value)} />
        )
      }
    </Field>
  ));
}

interface JsonBodyProps {
  text: string;
  problem: string | null;
  onChange: (text: string) => void;
}

function JsonBody({ text, problem, onChange }: JsonBodyProps) {
  const t = useMessages(messages);
  return (
    <Field label={t("jsonBody")} error={problem && t("notJson", { why: problem })}>
      {(wired) => (
        <TextArea
          {...wired}
          className={styles.body}
          spellCheck={false}
          rows={Math.min(16, Math.max(4, text.split("\n").length + 1))}
          value={text}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
    </Field>
  );
}

function Curl({ text }: { text: string }) {
  const t = useMessages(messages);
  return (
    <div className={styles.curl}>
      <div className={styles.curlHead}>
        <h3>{t("curl")}</h3>
        <CopyButton text={text} />
      </div>
      <Code label={t("curl")} text={text} />
    </div>
  );
}
