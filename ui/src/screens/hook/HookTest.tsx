/** A sample delivery, mapped and not started. */

import { useState } from "react";
import { listText, useMessages } from "../../i18n/messages";
import { type ParsedPairs, parsePairs } from "../../lib/pairLines";
import { type Hook, testHook } from "../../triggers/hookApi";
import { messages as common } from "../../triggers/messages";
import { TestDialog, WouldStart } from "../../triggers/TestDialog";
import styles from "../../triggers/Triggers.module.css";
import { hookRef } from "../../triggers/triggerRef";
import { CodeField } from "../../ui/fields";
import { messages } from "./messages";

const SAMPLE = '{\n  "hello": "world"\n}';

export function HookTest({ hook, onClose }: { hook: Hook; onClose: () => void }) {
  const t = useMessages(messages);
  const [headers, setHeaders] = useState("");
  const [query, setQuery] = useState("");
  const sent = { headers: parsePairs(headers), query: parsePairs(query) };
  return (
    <TestDialog
      title={t("testTitle", { hook: hook.hook_id })}
      label={t("sampleBody")}
      hint={t("sampleBodyHint")}
      sample={SAMPLE}
      invalid={"wrong" in sent.headers || "wrong" in sent.query}
      onClose={onClose}
      send={(json) =>
        testHook(
          hookRef(hook),
          `{"body":${json},"headers":${pairsJson(sent.headers)},"query":${pairsJson(sent.query)}}`,
        )
      }
      view={(tested) => (
        <WouldStart
          flow={tested.flow_name}
          tag={tested.tag}
          params={tested.params}
          idempotencyKey={tested.idempotency_key}
          problems={[
            ...(tested.reason ? [t(`reason.${tested.reason}`)] : []),
            ...tested.problems.map(({ field, message }) => (field ? `${field}: ${message}` : message)),
          ]}
        >
          {tested.missing.length > 0 && <p>{t("missing", { names: listText(tested.missing) })}</p>}
        </WouldStart>
      )}
    >
      <div className={styles.row}>
        <PairsField
          label={t("sampleHeaders")}
          hint={t("sampleHeadersHint")}
          value={headers}
          onChange={setHeaders}
        />
        <PairsField label={t("sampleQuery")} value={query} onChange={setQuery} />
      </div>
    </TestDialog>
  );
}

const pairsJson = (parsed: ParsedPairs): string => JSON.stringify("pairs" in parsed ? parsed.pairs : {});

interface PairsFieldProps {
  label: string;
  hint?: string;
  value: string;
  onChange: (value: string) => void;
}

function PairsField({ label, hint, value, onChange }: PairsFieldProps) {
  const c = useMessages(common);
  const parsed = parsePairs(value);
  const wrong = "wrong" in parsed ? c("badPair", { line: parsed.wrong }) : null;
  return <CodeField label={label} hint={hint} error={wrong} rows={2} value={value} onChange={onChange} />;
}
