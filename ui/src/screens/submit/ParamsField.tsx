/** The params of a run, as JSON. */

import { useAct } from "../../api/queries";
import type { Mark } from "../../editor/CodeEditor";
import { EditorField } from "../../editor/EditorField";
import { useMessages } from "../../i18n/messages";
import { formattedJson } from "../../lib/exactJson";
import { useStore } from "../../lib/store";
import { Button } from "../../ui/controls";
import { showToast } from "../../ui/toasts";
import { change, draft } from "./draft";
import { messages } from "./messages";
import { parseParams } from "./submission";
import { lastParams } from "./suggestions";

interface ParamsFieldProps {
  error: string | undefined;
  marks: readonly Mark[];
  onSubmit: () => void;
}

export function ParamsField({ error, marks, onSubmit }: ParamsFieldProps) {
  const t = useMessages(messages);
  const { params, flowName } = useStore(draft);
  const parsed = parseParams(params);
  const take = useAct(async () => ({ data: await lastParams(flowName.trim()) }), {
    onDone: (found) =>
      found === null ? showToast({ tone: "bad", title: t("noLastRun") }) : change({ params: found }),
  });
  return (
    <EditorField
      label={t("params")}
      hint={t("paramsHint")}
      error={error}
      language="json"
      value={params}
      marks={marks}
      onChange={(value) => change({ params: value })}
      onSubmit={onSubmit}
      actions={
        <>
          <Button kind="plain" disabled={flowName.trim() === ""} onClick={() => take.mutate()}>
            {t("lastParams")}
          </Button>
          <Button
            kind="plain"
            disabled={!("json" in parsed)}
            onClick={() => "json" in parsed && change({ params: formattedJson(parsed.json) })}
          >
            {t("tidy")}
          </Button>
        </>
      }
    />
  );
}
