import { useState } from "react";
import { useMessages } from "../../i18n/messages";
import { useTrigger } from "../../schedules/actions";
import { messages as common } from "../../schedules/messages";
import { OVERLAPS, type Schedule } from "../../schedules/schedule";
import { refOf } from "../../schedules/scheduleRef";
import { FormDialog } from "../../ui/FormDialog";
import { CodeField, SelectField } from "../../ui/fields";
import { parseParams } from "../submit/submission";
import { messages } from "./messages";

/** Starts a run now, with other params if given. */
export function TriggerDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [params, setParams] = useState("");
  const [overlap, setOverlap] = useState("");
  const trigger = useTrigger(refOf(schedule), { quiet: true, onDone: onClose });
  const parsed = parseParams(params);
  const wrong = "json" in parsed ? null : parsed.place ? t("badJson", { ...parsed.place }) : t("badObject");
  const isBlocked = trigger.isPending || wrong !== null;
  const send = () => {
    if (isBlocked || !("json" in parsed)) return;
    const fields = [
      ...(params.trim() === "" ? [] : [`"params":${parsed.json}`]),
      ...(overlap ? [`"overlap":${JSON.stringify(overlap)}`] : []),
    ];
    trigger.mutate(`{${fields.join(",")}}`);
  };
  return (
    <FormDialog
      title={t("triggerTitle", { schedule: schedule.schedule_id })}
      width={500}
      confirm={c("trigger")}
      blocked={isBlocked}
      problem={trigger.error}
      onSubmit={send}
      onClose={onClose}
    >
      <p>{t("triggerText")}</p>
      <CodeField
        label={t("triggerParams")}
        hint={t("triggerParamsHint")}
        error={wrong}
        rows={4}
        value={params}
        onChange={setParams}
      />
      <SelectField
        label={t("triggerOverlap")}
        none={t("asSchedule", { what: c(`overlap.${schedule.overlap}`) })}
        options={OVERLAPS}
        text={(each) => c(`overlap.${each}`)}
        value={overlap}
        onChange={setOverlap}
      />
    </FormDialog>
  );
}
