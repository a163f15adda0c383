/** Reruns a run from its start with other params: a form with the old ones. */
import { useState } from "react";
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { readSchema } from "../../flows/flowApi";
import { ParamsEditor } from "../../flows/ParamsEditor";
import { useParams } from "../../flows/useParams";
import { useMessages } from "../../i18n/messages";
import { parseJson } from "../../lib/exactJson";
import type { Json, Schema } from "../../schemaForm/json";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { Loading, ProblemBox } from "../../ui/feedback";
import { messages as dialogTexts } from "../../ui/messages";
import { messages } from "./messages";
import styles from "./Run.module.css";
import { useRerunWith } from "./reruns";
import type { Run } from "./run";

/** The params of the run, whole and with long numbers exact. */
async function readParams(id: string, signal: AbortSignal): Promise<{ data: Json }> {
  const params = { path: { run_id: id }, query: { include: ["full"] as "full"[] } };
  const { data } = await api.GET("/runs/{run_id}", { params, signal, parseAs: "text" });
  return { data: (parseJson(data ?? "{}") as { params?: Json }).params ?? {} };
}

export function RerunDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const t = useMessages(messages);
  const old = useRead(["run-params", run.run_id], (signal) => readParams(run.run_id, signal));
  const schema = useRead(["flows", "schema", run.flow_name], (signal) => readSchema(run.flow_name, signal), {
    enabled: run.workflow_yaml_sha256 == null,
  });
  const problem = old.error;
  if (old.data === undefined || (schema.isPending && schema.fetchStatus !== "idle"))
    return (
      <Dialog open onClose={onClose} title={t("rerunParamsTitle")} width={560}>
        {problem ? <ProblemBox problem={problem} onRetry={() => void old.refetch()} /> : <Loading />}
      </Dialog>
    );
  return <RerunForm run={run} begin={old.data} schema={schema.data ?? null} onClose={onClose} />;
}

interface RerunFormProps {
  run: Run;
  begin: Json;
  schema: Schema | null;
  onClose: () => void;
}

function RerunForm({ run, begin, schema, onClose }: RerunFormProps) {
  const t = useMessages(messages);
  const common = useMessages(dialogTexts);
  const params = useParams(schema, begin);
  const rerun = useRerunWith(run.run_id);
  const [isShown, setShown] = useState(false);
  const submit = async () => {
    setShown(false);
    const json = await params.check();
    if (json !== null && !rerun.isPending)
      rerun.mutate(json, { onError: (refused) => setShown(!params.refused(refused)) });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("rerunParamsTitle")}
      width={560}
      actions={
        <>
          <Button onClick={onClose}>{common("goBack")}</Button>
          <Button kind="primary" disabled={rerun.isPending} onClick={() => void submit()}>
            {t("rerun")}
          </Button>
        </>
      }
    >
      <form
        className={styles.dialog}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <p>{t("rerunParamsText")}</p>
        {isShown && rerun.error && <ProblemBox problem={rerun.error} />}
        <ParamsEditor
          schema={schema}
          value={params.value}
          problems={params.problems}
          onChange={params.change}
        />
      </form>
    </Dialog>
  );
}
