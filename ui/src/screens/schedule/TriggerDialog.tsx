import { useState } from "react";
import { useMessages } from "../../i18n/messages";
import { useTrigger } from "../../schedules/actions";
import { messages as common } from "../../schedules/messages";
import { OVERLAPS, type Schedule } from "../../schedules/schedule";
import { refOf } from "../../schedules/scheduleRef";
import { Button, Field, Select, TextArea } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { parseParams } from "../submit/submission";
import { messages } from "./messages";
import styles from "./Schedule.module.css";

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
    <Dialog
      open
      onClose={onClose}
      title={t("triggerTitle", { schedule: schedule.schedule_id })}
      width={500}
      actions={
        <>
          <Button onClick={onClose}>{t("goBack")}</Button>
          <Button kind="primary" disabled={isBlocked} onClick={send}>
            {c("trigger")}
          </Button>
        </>
      }
    >
      <form
        className={styles.dialog}
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        {trigger.error && <ProblemBox problem={trigger.error} />}
        <p>{t("triggerText")}</p>
        <Field label={t("triggerParams")} hint={t("triggerParamsHint")} error={wrong}>
          {(wired) => (
            <TextArea
              {...wired}
              className="mono"
              rows={4}
              spellCheck={false}
              value={params}
              onChange={(event) => setParams(event.target.value)}
            />
          )}
        </Field>
        <Field label={t("triggerOverlap")}>
          {(wired) => (
            <Select {...wired} value={overlap} onChange={(event) => setOverlap(event.target.value)}>
              <option value="">{t("asSchedule", { what: c(`overlap.${schedule.overlap}`) })}</option>
              {OVERLAPS.map((each) => (
                <option key={each} value={each}>
                  {c(`overlap.${each}`)}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </form>
    </Dialog>
  );
}
