/** Submits a run by flow name and params, or with a flow.yaml. */

import { Play } from "lucide-react";
import { useLayoutEffect } from "react";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { Arming } from "../../ui/arming";
import { Button, Field, Input, Segments } from "../../ui/controls";
import { Form } from "../../ui/Form";
import { ProblemBox } from "../../ui/feedback";
import { InputField } from "../../ui/fields";
import { Card, Page } from "../../ui/Page";
import { SuggestionList } from "../../ui/SuggestionList";
import { change, draft } from "./draft";
import { messages } from "./messages";
import { ParamsField } from "./ParamsField";
import { StartField } from "./StartField";
import styles from "./Submit.module.css";
import { useFlowSuggestions, useServedTags } from "./suggestions";
import { useSubmission } from "./useSubmission";
import { YamlField } from "./YamlField";

export default function SubmitScreen() {
  const t = useMessages(messages);
  const [query, changeQuery] = useQueryState();
  const kind = query.get("kind") === "yaml" ? "yaml" : "flow";
  const [flow, tag] = [query.get("flow"), query.get("tag")];
  // Before it is painted: a later effect would undo what is typed meanwhile.
  useLayoutEffect(() => {
    // A link may contain initial values.
    if (flow !== null) change({ flowName: flow });
    if (tag !== null) change({ tag });
  }, [flow, tag]);
  const written = useStore(draft);
  const submission = useSubmission(kind);
  const { wrong, problem, isPending, submit, anyway } = submission;
  return (
    <Page title={t("title")}>
      <Form className={styles.form} refusal={null} onSubmit={submit}>
        <Segments
          label={t("kind")}
          value={kind}
          options={[
            { value: "flow", label: t("kind.flow") },
            { value: "yaml", label: t("kind.yaml") },
          ]}
          onChange={(value) => changeQuery({ kind: value === "yaml" ? value : null }, { replace: true })}
        />
        <Card>
          <div className={styles.fields}>
            <FlowField
              hint={kind === "flow" ? t("flowHint") : t("yamlNameHint")}
              error={wrong.fields.flow_name}
            />
            {kind === "flow" ? (
              <ParamsField error={wrong.fields.params} marks={wrong.paramMarks} onSubmit={submit} />
            ) : (
              <YamlField marks={wrong.yamlMarks} onSubmit={submit} />
            )}
            <div className={styles.row}>
              <TagField error={wrong.fields.tag} />
              {kind === "flow" && (
                <InputField
                  label={t("tags")}
                  hint={t("tagsHint")}
                  error={wrong.fields.tags}
                  value={written.tags}
                  onChange={(tags) => change({ tags })}
                />
              )}
              <InputField
                label={t("timeout")}
                hint={t("timeoutHint")}
                error={wrong.fields.timeout_sec}
                inputMode="decimal"
                value={written.timeoutSec}
                onChange={(timeoutSec) => change({ timeoutSec })}
              />
            </div>
            <StartField errors={wrong.fields} />
          </div>
        </Card>
        {problem && <ProblemBox problem={problem} />}
        <div className={styles.actions}>
          <Button kind="primary" type="submit" aria-disabled={isPending}>
            <Play size={14} aria-hidden />
            {isPending ? t("submitting") : t("submit")}
          </Button>
          {anyway && (
            <Arming>
              <Button kind="danger" onClick={anyway} disabled={isPending}>
                {t("anyway")}
              </Button>
            </Arming>
          )}
          <span className={styles.soft}>
            {anyway ? t("anywayHint") : problem?.passing ? t("again") : t("keys")}
          </span>
        </div>
      </Form>
    </Page>
  );
}

function FlowField({ hint, error }: { hint: string; error: string | undefined }) {
  const t = useMessages(messages);
  const { flowName } = useStore(draft);
  const known = useFlowSuggestions();
  return (
    <Field label={t("flowName")} hint={hint} error={error} required>
      {(wired) => (
        <>
          <Input
            {...wired}
            list="known-flows"
            required
            maxLength={200}
            autoComplete="off"
            value={flowName}
            onChange={(event) => change({ flowName: event.target.value })}
          />
          <SuggestionList id="known-flows" values={known} />
        </>
      )}
    </Field>
  );
}

function TagField({ error }: { error: string | undefined }) {
  const t = useMessages(messages);
  const { tag } = useStore(draft);
  const served = useServedTags();
  return (
    <Field label={t("tag")} hint={served.isUnserved(tag) ? t("noWorkerForTag") : t("tagHint")} error={error}>
      {(wired) => (
        <>
          <Input
            {...wired}
            list="known-tags"
            autoComplete="off"
            value={tag}
            onChange={(event) => change({ tag: event.target.value })}
          />
          <SuggestionList id="known-tags" values={served.tags} />
        </>
      )}
    </Field>
  );
}
