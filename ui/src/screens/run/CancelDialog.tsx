/** Cancels a run, with a reason for those who look at it later. */
import { useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { useAct } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Button, Field, Input } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { messages } from "./messages";
import styles from "./Run.module.css";
import type { Run } from "./run";

export function CancelDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const t = useMessages(messages);
  const [reason, setReason] = useState("");
  const cancel = useAct(
    () =>
      api.POST("/runs/{run_id}/cancel", {
        params: { path: { run_id: run.run_id } },
        body: body<Schemas["CancelRequest"]>({ reason: reason.trim() || null }),
      }),
    { quiet: true, onDone: onClose },
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("cancelTitle", { flow: run.flow_name })}
      width={460}
      actions={
        <>
          <Button onClick={onClose}>{t("keepRunning")}</Button>
          <Button kind="danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
            {t("cancel")}
          </Button>
        </>
      }
    >
      <form
        className={styles.dialog}
        onSubmit={(event) => {
          event.preventDefault();
          cancel.mutate();
        }}
      >
        {cancel.error && <ProblemBox problem={cancel.error} />}
        <p>{t("cancelText")}</p>
        <Field label={t("cancelReason")} hint={t("cancelReasonHint")}>
          {(wired) => <Input {...wired} value={reason} onChange={(event) => setReason(event.target.value)} />}
        </Field>
      </form>
    </Dialog>
  );
}
