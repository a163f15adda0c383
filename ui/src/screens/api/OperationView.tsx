/** One operation: what it takes, what it returns, and a form that sends it. */
import { useMessages } from "../../i18n/messages";
import { jsonText } from "../../lib/exactJson";
import { Card } from "../../ui/Page";
import styles from "./Api.module.css";
import {
  type Answer,
  type Content,
  type Document,
  exampleOf,
  type Operation,
  type Parameter,
  STREAM_TYPE,
  typeName,
} from "./document";
import { Marked } from "./Marked";
import { Method } from "./Method";
import { messages } from "./messages";
import { SchemaView } from "./SchemaView";
import { TryIt } from "./TryIt";

interface OperationProps {
  operation: Operation;
  document: Document;
}

export function OperationView({ operation, document }: OperationProps) {
  const t = useMessages(messages);
  const { method, path, text, parameters, body, answers, scopes } = operation;
  return (
    <article className={styles.operation} aria-label={operation.id}>
      <h2 className={styles.heading}>
        <Method name={method} />
        <code>{path}</code>
      </h2>
      <p>
        <Marked text={text} />
      </p>
      <p className={styles.soft}>
        {scopes.length > 0 ? t("scopes", { scopes: scopes.join(", ") }) : t("noKey")}
      </p>
      <TryIt operation={operation} document={document} />
      {parameters.length > 0 && (
        <Card title={t("parameters")}>
          <dl className={styles.properties}>
            {parameters.map((parameter) => (
              <ParameterView key={`${parameter.in} ${parameter.name}`} {...{ parameter, document }} />
            ))}
          </dl>
        </Card>
      )}
      {body && (
        <Card title={t(body.required ? "body" : "bodyOptional")}>
          <ContentView content={body} document={document} />
        </Card>
      )}
      <Card title={t("responses")}>
        <div className={styles.answers}>
          {answers.map((answer) => (
            <AnswerView key={answer.status} {...{ answer, document }} />
          ))}
        </div>
      </Card>
    </article>
  );
}

function ParameterView({ parameter, document }: { parameter: Parameter; document: Document }) {
  const t = useMessages(messages);
  const { name, in: place, required, description, schema } = parameter;
  return (
    <div>
      <dt>
        <code>{name}</code> <span className={styles.type}>{typeName(schema, document)}</span>{" "}
        <span className={styles.soft}>{t(`in.${place}`)}</span>
        {required && <span className={styles.required}>{t("required")}</span>}
      </dt>
      {description && (
        <dd>
          <Marked text={description} />
        </dd>
      )}
    </div>
  );
}

function AnswerView({ answer, document }: { answer: Answer; document: Document }) {
  const isError = Number(answer.status) >= 400;
  return (
    <details className={styles.answer} open={answer.status.startsWith("2")}>
      <summary>
        <code className={isError ? styles.bad : styles.good}>{answer.status}</code>{" "}
        <Marked text={answer.description} />
      </summary>
      {answer.content.map((content) => (
        <ContentView key={content.type} content={content} document={document} />
      ))}
    </details>
  );
}

function ContentView({ content, document }: { content: Content; document: Document }) {
  const t = useMessages(messages);
  const { type, schema } = content;
  const isJson = type.includes("json");
  return (
    <div className={styles.content}>
      <p className={styles.soft}>
        <code>{type}</code> <span className={styles.type}>{typeName(schema, document)}</span>
      </p>
      <SchemaView schema={schema} document={document} described={type === STREAM_TYPE} />
      {isJson && (
        <details>
          <summary>{t("example")}</summary>
          <pre className={styles.code}>{jsonText(exampleOf(schema, document), 2)}</pre>
        </details>
      )}
    </div>
  );
}
