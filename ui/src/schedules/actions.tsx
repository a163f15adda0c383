/** What both screens of schedules do: pause with a note, resume, trigger. */

import { useRef, useState } from "react";
import { Attempt } from "../api/idempotencyKey";
import { useAct } from "../api/queries";
import { href, pathTo } from "../app/router";
import { useMessages } from "../i18n/messages";
import { FormDialog } from "../ui/FormDialog";
import { InputField } from "../ui/fields";
import { showToast } from "../ui/toasts";
import { messages } from "./messages";
import { pauseSchedule, resumeSchedule, triggerSchedule } from "./scheduleApi";
import type { ScheduleRef } from "./scheduleRef";

/** Everything that shows schedules or their runs. */
export const REFRESH = [["schedules"], ["schedule"], ["schedule-runs"]];

export function useResume(ref: ScheduleRef) {
  const t = useMessages(messages);
  return useAct(() => resumeSchedule(ref), {
    refresh: REFRESH,
    onDone: () => showToast({ tone: "good", title: t("isResumed", { schedule: ref.id }) }),
  });
}

/** Sends the request of a trigger, as JSON. */
export function useTrigger(ref: ScheduleRef, options: { quiet?: boolean; onDone?: () => void } = {}) {
  const t = useMessages(messages);
  const attempt = useRef(new Attempt());
  return useAct((json: string) => triggerSchedule(ref, json, attempt.current.keyFor(json)), {
    quiet: options.quiet,
    refresh: REFRESH,
    onDone: ({ run_id }) => {
      attempt.current.accepted();
      showToast({
        tone: "good",
        title: t("triggered", { schedule: ref.id }),
        link: { href: href(pathTo("/runs/:id", { id: run_id })), label: t("showRun") },
      });
      options.onDone?.();
    },
  });
}

export function PauseDialog({ schedule, onClose }: { schedule: ScheduleRef; onClose: () => void }) {
  const t = useMessages(messages);
  const [note, setNote] = useState("");
  const pause = useAct(() => pauseSchedule(schedule, note.trim()), {
    quiet: true,
    refresh: REFRESH,
    onDone: () => {
      showToast({ tone: "good", title: t("isPaused", { schedule: schedule.id }) });
      onClose();
    },
  });
  return (
    <FormDialog
      title={t("pauseTitle", { schedule: schedule.id })}
      confirm={t("pause")}
      blocked={pause.isPending}
      problem={pause.error}
      onSubmit={() => pause.mutate()}
      onClose={onClose}
    >
      <p>{t("pauseText")}</p>
      <InputField label={t("note")} hint={t("noteHint")} value={note} maxLength={500} onChange={setNote} />
    </FormDialog>
  );
}
