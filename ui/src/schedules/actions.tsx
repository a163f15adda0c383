/** What both screens of schedules do: pause with a note, resume, trigger. */
import { useRef, useState } from "react";
import { Attempt } from "../api/idempotencyKey";
import { useAct } from "../api/queries";
import { href, pathTo } from "../app/router";
import { useMessages } from "../i18n/messages";
import { Button, Field, Input } from "../ui/controls";
import { Dialog } from "../ui/Dialog";
import { ProblemBox } from "../ui/feedback";
import { showToast } from "../ui/toasts";
import { messages } from "./messages";
import styles from "./Schedules.module.css";
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
    onDone: ({ run_id, outcome }) => {
      attempt.current.accepted();
      if (outcome === "buffered") {
        // Until it starts, there is no run to show.
        showToast({ tone: "good", title: t("triggerBuffered", { schedule: ref.id }) });
      } else {
        showToast({
          tone: "good",
          title: t("triggered", { schedule: ref.id }),
          link: { href: href(pathTo("/runs/:id", { id: run_id })), label: t("showRun") },
        });
      }
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
    <Dialog
      open
      onClose={onClose}
      title={t("pauseTitle", { schedule: schedule.id })}
      width={460}
      actions={
        <>
          <Button onClick={onClose}>{t("goBack")}</Button>
          <Button kind="primary" disabled={pause.isPending} onClick={() => pause.mutate()}>
            {t("pause")}
          </Button>
        </>
      }
    >
      <form
        className={styles.dialog}
        onSubmit={(event) => {
          event.preventDefault();
          pause.mutate();
        }}
      >
        {pause.error && <ProblemBox problem={pause.error} />}
        <p>{t("pauseText")}</p>
        <Field label={t("note")} hint={t("noteHint")}>
          {(wired) => (
            <Input
              {...wired}
              value={note}
              maxLength={500}
              onChange={(event) => setNote(event.target.value)}
            />
          )}
        </Field>
      </form>
    </Dialog>
  );
}
