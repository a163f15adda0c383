/** What is started: a flow with params and tag, or a flow.yaml. */
import { useMemo } from "react";
import { useMessages } from "../i18n/messages";
import { parseParams } from "../screens/submit/submission";
import { useFlowSuggestions, useServedTags } from "../screens/submit/suggestions";
import type { Draft, Wrong } from "../ui/draftForm";
import { LinesField, TextField, useForm } from "../ui/draftForm";
import { SuggestionList } from "../ui/SuggestionList";
import { messages } from "./messages";
import styles from "./Triggers.module.css";

export function FlowFields() {
  const t = useMessages(messages);
  const { draft, wrong } = useForm();
  const flows = useFlowSuggestions();
  const served = useServedTags();
  const isUnserved = served.isUnserved(draft.tag ?? "");
  return (
    <>
      <div className={styles.row}>
        <TextField
          name="flow_name"
          label={t("flowName")}
          hint={t("flowHint")}
          list="known-flows"
          required
          maxLength={200}
        />
        <SuggestionList id="known-flows" values={flows} />
        <TextField
          name="tag"
          label={t("tag")}
          hint={isUnserved ? t("noWorkerForTag") : t("tagHint")}
          list="known-tags"
        />
        <SuggestionList id="known-tags" values={served.tags} />
      </div>
      <LinesField name="params" label={t("fixedParams")} hint={t("fixedParamsHint")} />
      <div className={styles.row}>
        <TextField name="tags" label={t("tags")} hint={t("tagsHint")} />
        <TextField name="timeout_sec" inputMode="decimal" label={t("timeout")} hint={t("timeoutHint")} />
      </div>
      <details open={Boolean(draft.workflow_yaml || wrong.workflow_yaml)}>
        <summary>{t("yamlInstead")}</summary>
        <LinesField name="workflow_yaml" label="flow.yaml" hint={t("yamlHint")} rows={6} />
      </details>
    </>
  );
}

/** Validation without the gateway. */
export function useBindingFindings(draft: Draft): Wrong {
  const t = useMessages(messages);
  const { flow_name: flow = "", params = "" } = draft;
  return useMemo(() => {
    const parsed = parseParams(params);
    return {
      ...(flow.trim() === "" && { flow_name: t("required") }),
      ...("place" in parsed && {
        params: parsed.place ? t("badJson", { ...parsed.place }) : t("badObject"),
      }),
    };
  }, [t, flow, params]);
}
