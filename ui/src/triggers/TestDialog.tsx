/** A sample is sent to a test endpoint, which shows the run it would start and starts nothing. */

import { FlaskConical } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useAct } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { errorPosition } from "../lib/jsonPosition";
import { JsonValue } from "../screens/run/details/JsonValue";
import { placeAt } from "../screens/submit/submission";
import { Button } from "../ui/controls";
import { Dialog } from "../ui/Dialog";
import { Fact, FactList } from "../ui/FactList";
import { ProblemBox } from "../ui/feedback";
import { CodeField } from "../ui/fields";
import { messages } from "./messages";
import styles from "./Triggers.module.css";

interface TestDialogProps<T> {
  title: string;
  label: string;
  hint: string;
  /** The text at first. */
  sample: string;
  /** Further inputs, and whether one of them is wrong. */
  children?: ReactNode;
  invalid?: boolean;
  onClose: () => void;
  send: (json: string) => Promise<{ data?: T }>;
  view: (tested: T) => ReactNode;
}

export function TestDialog<T>(props: TestDialogProps<T>) {
  const { title, label, hint, sample, children, invalid = false, onClose, send, view } = props;
  const t = useMessages(messages);
  const [text, setText] = useState(sample);
  const test = useAct(() => send(text.trim() === "" ? "null" : text), { quiet: true });
  const at = text.trim() === "" ? null : errorPosition(text);
  const wrong = at === null ? null : t("badJson", { ...placeAt(text, at) });
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      width={640}
      actions={
        <>
          <Button onClick={onClose}>{t("close")}</Button>
          <Button
            kind="primary"
            disabled={test.isPending || wrong !== null || invalid}
            onClick={() => test.mutate()}
          >
            <FlaskConical size={14} aria-hidden />
            {t("test")}
          </Button>
        </>
      }
    >
      <div className={styles.dialog}>
        <p>{t("testText")}</p>
        <CodeField label={label} hint={hint} error={wrong} rows={8} value={text} onChange={setText} />
        {children}
        {test.error && <ProblemBox problem={test.error} />}
        {test.data && (
          <section className={styles.stack} aria-label={t("testResult")} aria-live="polite">
            {view(test.data)}
          </section>
        )}
      </div>
    </Dialog>
  );
}

interface WouldStartProps {
  flow: string | null;
  tag: string | null;
  params: unknown;
  idempotencyKey: string | null;
  /** Why nothing would be started; empty: a run would be. */
  problems: readonly string[];
  children?: ReactNode;
}

export function WouldStart({ flow, tag, params, idempotencyKey, problems, children }: WouldStartProps) {
  const t = useMessages(messages);
  return (
    <>
      {problems.length > 0 ? (
        <div className={styles.note} role="alert">
          <strong>{t("wouldNotStart")}</strong>
          {problems.map((problem) => (
            <p key={problem}>{problem}</p>
          ))}
        </div>
      ) : (
        <p>
          <strong>{t("wouldStart")}</strong>
        </p>
      )}
      <FactList>
        <Fact name={t("flowName")}>{flow ?? "–"}</Fact>
        <Fact name={t("tag")}>{tag ?? "–"}</Fact>
        <Fact name={t("idempotencyKey")}>
          {idempotencyKey === null ? t("noKey") : <code>{idempotencyKey}</code>}
        </Fact>
      </FactList>
      {children}
      <JsonValue value={params} label={t("mappedParams")} />
    </>
  );
}
