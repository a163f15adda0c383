/** Sends a signal to a run that waits for one. */

import { useRef, useState } from "react";
import { send } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import { useAct } from "../../api/queries";
import { listText, useMessages } from "../../i18n/messages";
import { errorPosition } from "../../lib/jsonPosition";
import { Field, Input } from "../../ui/controls";
import { FormDialog } from "../../ui/FormDialog";
import { CodeField } from "../../ui/fields";
import { SuggestionList } from "../../ui/SuggestionList";
import { showToast } from "../../ui/toasts";
import { placeAt } from "../submit/submission";
import { messages } from "./messages";
import { openWaits, type Run, topicOf } from "./run";

/** As typed, so that long numbers stay as they are. */
async function sendSignal(run: Run, name: string, json: string, key: string) {
  const path = `/runs/${run.run_id}/signals/${encodeURIComponent(name)}`;
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  const url = new URL(path, location.origin);
  await send(new Request(url, { method: "POST", headers, body: json }));
  return { data: name };
}

export function SignalDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const t = useMessages(messages);
  const names = [...new Set(openWaits(run, "signal").map(topicOf))];
  const [name, setName] = useState(names[0] ?? "");
  const [data, setData] = useState("");
  const attempt = useRef(new Attempt());
  const json = data.trim() || "null";
  const wrongAt = errorPosition(json);
  const act = useAct(
    () => sendSignal(run, name.trim(), json, attempt.current.keyFor(`${name.trim()} ${json}`)),
    {
      quiet: true,
      onDone: (sent) => {
        showToast({ tone: "good", title: t("signalSent", { name: sent }) });
        onClose();
      },
    },
  );
  const isBlocked = act.isPending || name.trim() === "" || wrongAt !== null;
  return (
    <FormDialog
      title={t("signalTitle", { flow: run.flow_name })}
      width={480}
      confirm={t("signalSend")}
      blocked={isBlocked}
      problem={act.error}
      onSubmit={() => act.mutate()}
      onClose={onClose}
    >
      <p>{t("signalText")}</p>
      <Field
        label={t("signalName")}
        hint={names.length > 0 && t("signalNameHint", { names: listText(names) })}
      >
        {(wired) => (
          <>
            <Input
              {...wired}
              list="awaited-signals"
              autoComplete="off"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
            <SuggestionList id="awaited-signals" values={names} />
          </>
        )}
      </Field>
      <CodeField
        label={t("signalData")}
        hint={t("signalDataHint")}
        error={wrongAt === null ? null : t("signalBad", { ...placeAt(json, wrongAt) })}
        rows={5}
        value={data}
        onChange={setData}
      />
    </FormDialog>
  );
}
