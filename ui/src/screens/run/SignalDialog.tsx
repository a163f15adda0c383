/** Sends a signal to a run that waits for one. */
import { useRef, useState } from "react";
import { send } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import { useAct } from "../../api/queries";
import { listText, useMessages } from "../../i18n/messages";
import { errorPosition } from "../../lib/jsonPosition";
import { Button, Field, Input, TextArea } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { SuggestionList } from "../../ui/SuggestionList";
import { showToast } from "../../ui/toasts";
import { placeAt } from "../submit/submission";
import { messages } from "./messages";
import styles from "./Run.module.css";
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
    <Dialog
      open
      onClose={onClose}
      title={t("signalTitle", { flow: run.flow_name })}
      width={480}
      actions={
        <>
          <Button onClick={onClose}>{t("goBack")}</Button>
          <Button kind="primary" disabled={isBlocked} onClick={() => act.mutate()}>
            {t("signalSend")}
          </Button>
        </>
      }
    >
      <form
        className={styles.dialog}
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBlocked) act.mutate();
        }}
      >
        {act.error && <ProblemBox problem={act.error} />}
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
        <Field
          label={t("signalData")}
          hint={t("signalDataHint")}
          error={wrongAt === null ? null : t("signalBad", { ...placeAt(json, wrongAt) })}
        >
          {(wired) => (
            <TextArea
              {...wired}
              className="mono"
              rows={5}
              spellCheck={false}
              value={data}
              onChange={(event) => setData(event.target.value)}
            />
          )}
        </Field>
      </form>
    </Dialog>
  );
}
