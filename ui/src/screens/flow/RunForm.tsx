/** Runs the flow with params from its schema. A refusal is shown at its field. */
import { Play } from "lucide-react";
import { useRef, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import { useAct } from "../../api/queries";
import { href, navigate, pathTo } from "../../app/router";
import type { Flow } from "../../flows/flowApi";
import { ParamsEditor } from "../../flows/ParamsEditor";
import { useParams } from "../../flows/useParams";
import { useMessages } from "../../i18n/messages";
import { Button, Field, Select } from "../../ui/controls";
import { ProblemBox } from "../../ui/feedback";
import { useFirstInvalid } from "../../ui/firstInvalid";
import styles from "./Flow.module.css";
import { messages } from "./messages";

export function RunForm({ flow }: { flow: Flow }) {
  const t = useMessages(messages);
  const form = useRef<HTMLFormElement>(null);
  const attempt = useRef(new Attempt());
  const [tag, setTag] = useState(flow.tags[0] ?? "");
  const [isShown, setShown] = useState(false);
  const params = useParams(flow.parameters);
  useFirstInvalid(form, params.problems.size > 0 ? params.problems : null);
  const run = useAct(
    (json: string) =>
      api.POST("/runs", {
        params: {
          query: { strict: true },
          header: { "Idempotency-Key": attempt.current.keyFor(`${flow.name} ${tag} ${json}`) },
        },
        body: {} as Schemas["RunSubmitRequest"],
        // Numbers are sent as they were typed.
        bodySerializer: () =>
          `{"flow_name":${JSON.stringify(flow.name)}${tag ? `,"tag":${JSON.stringify(tag)}` : ""},"params":${json}}`,
      }),
    {
      quiet: true,
      refresh: [["runs"], ["flows"], ["overview"]],
      onDone: ({ run_id: id }) => {
        attempt.current.accepted();
        navigate(href(pathTo("/runs/:id", { id })));
      },
    },
  );
  const submit = async () => {
    if (run.isPending) return;
    setShown(false);
    const json = await params.check();
    if (json === null) return;
    run.mutate(json, { onError: (problem) => setShown(!params.refused(problem)) });
  };
  return (
    <form
      ref={form}
      className={styles.form}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <ParamsEditor
        schema={flow.parameters}
        value={params.value}
        problems={params.problems}
        onChange={params.change}
      />
      {flow.tags.length > 1 && (
        <Field label={t("tag")} hint={t("tagHint")}>
          {(wired) => (
            <Select {...wired} value={tag} onChange={({ target }) => setTag(target.value)}>
              {flow.tags.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </Select>
          )}
        </Field>
      )}
      {isShown && run.error && <ProblemBox problem={run.error} />}
      <div className={styles.actions}>
        <Button kind="primary" type="submit" disabled={run.isPending}>
          <Play size={14} aria-hidden />
          {t("runNow")}
        </Button>
        <a href={href("/submit", { flow: flow.name })}>{t("moreOptions")}</a>
      </div>
    </form>
  );
}
