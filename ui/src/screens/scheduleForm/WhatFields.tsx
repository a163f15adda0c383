/** What to run: a flow with params, or a flow.yaml. */
import type { Mark } from "../../editor/CodeEditor";
import { EditorField } from "../../editor/EditorField";
import { useMessages } from "../../i18n/messages";
import { formattedJson } from "../../lib/exactJson";
import { Button, Segments } from "../../ui/controls";
import { SuggestionList } from "../../ui/SuggestionList";
import { parseParams } from "../submit/submission";
import { useFlowSuggestions, useServedTags } from "../submit/suggestions";
import { TextField, useForm } from "./fields";
import { messages } from "./messages";
import styles from "./ScheduleForm.module.css";

interface WhatFieldsProps {
  isNew: boolean;
  paramMarks: readonly Mark[];
  yamlMarks: readonly Mark[];
  onSubmit: () => void;
}

export function WhatFields({ isNew, paramMarks, yamlMarks, onSubmit }: WhatFieldsProps) {
  const t = useMessages(messages);
  const { draft, change, wrong } = useForm();
  const flows = useFlowSuggestions();
  const served = useServedTags();
  const parsed = parseParams(draft.params);
  return (
    <>
      <div className={styles.row}>
        <TextField
          name="id"
          label={t("id")}
          hint={isNew ? t("idHint") : t("idFixed")}
          disabled={!isNew}
          required={isNew}
          maxLength={64}
        />
        <TextField
          name="flowName"
          label={t("flowName")}
          hint={draft.kind === "flow" ? t("flowHint") : t("yamlNameHint")}
          list="known-flows"
          required
          maxLength={200}
        />
        <SuggestionList id="known-flows" values={flows} />
      </div>
      <Segments
        label={t("kind")}
        value={draft.kind}
        options={[
          { value: "flow", label: t("kind.flow") },
          { value: "yaml", label: t("kind.yaml") },
        ]}
        onChange={(kind) => change({ kind })}
      />
      {draft.kind === "flow" ? (
        <EditorField
          label={t("params")}
          hint={t("paramsHint")}
          error={wrong.params}
          language="json"
          value={draft.params}
          marks={paramMarks}
          onChange={(params) => change({ params })}
          onSubmit={onSubmit}
          actions={
            <Button
              kind="plain"
              disabled={!("json" in parsed)}
              onClick={() => "json" in parsed && change({ params: formattedJson(parsed.json) })}
            >
              {t("tidy")}
            </Button>
          }
        />
      ) : (
        <EditorField
          tall
          label={t("yaml")}
          hint={t("yamlHint")}
          error={wrong.yaml ?? yamlMarks[0]?.message}
          language="yaml"
          value={draft.yaml}
          marks={yamlMarks}
          onChange={(yaml) => change({ yaml })}
          onSubmit={onSubmit}
          actions={null}
        />
      )}
      <div className={styles.row}>
        <TextField
          name="tag"
          label={t("tag")}
          hint={served.isUnserved(draft.tag) ? t("noWorkerForTag") : t("tagHint")}
          list="known-tags"
        />
        <SuggestionList id="known-tags" values={served.tags} />
        <TextField name="tags" label={t("tags")} hint={t("tagsHint")} />
        <TextField name="timeoutSec" inputMode="decimal" label={t("timeout")} hint={t("timeoutHint")} />
      </div>
    </>
  );
}
