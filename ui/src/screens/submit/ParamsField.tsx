/** The params of a run, as JSON. */

import { useAct } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { Button } from "../../ui/controls";
import { showToast } from "../../ui/toasts";
import { change, draft } from "./draft";
import { EditorField } from "./EditorField";
import { lastParams } from "./known";
import { messages } from "./messages";
import { type Mark, parseParams } from "./submission";

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
            disabled={!("value" in parsed)}
            onClick={() => "value" in parsed && change({ params: JSON.stringify(parsed.value, null, 2) })}
          >
            {t("tidy")}
          </Button>
        </>
      }
    />
  );
}
