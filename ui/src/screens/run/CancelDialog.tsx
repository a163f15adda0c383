/** Cancels a run, with a reason for those who look at it later. */

import { useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { useAct } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { FormDialog } from "../../ui/FormDialog";
import { InputField } from "../../ui/fields";
import { messages } from "./messages";
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
    <FormDialog
      title={t("cancelTitle", { flow: run.flow_name })}
      confirm={t("cancel")}
      back={t("keepRunning")}
      kind="danger"
      blocked={cancel.isPending}
      problem={cancel.error}
      onSubmit={() => cancel.mutate()}
      onClose={onClose}
    >
      <p>{t("cancelText")}</p>
      <InputField
        label={t("cancelReason")}
        hint={t("cancelReasonHint")}
        value={reason}
        onChange={setReason}
      />
    </FormDialog>
  );
}
