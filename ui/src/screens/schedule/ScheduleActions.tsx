/** The actions of a schedule: trigger, pause, edit, backfill, delete. */

import { Ellipsis, History, Pause, Pencil, Play, Trash2, Zap } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { href, navigate } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { PauseDialog, useResume } from "../../schedules/actions";
import { messages as common } from "../../schedules/messages";
import type { Schedule } from "../../schedules/schedule";
import { deleteSchedule } from "../../schedules/scheduleApi";
import { refOf, scheduleHref } from "../../schedules/scheduleRef";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button, ButtonLink, IconButton } from "../../ui/controls";
import { Menu, MenuItem, MenuLabel, MenuLine } from "../../ui/menus";
import { showToast } from "../../ui/toasts";
import { BackfillDialog } from "./BackfillDialog";
import { messages } from "./messages";
import { TriggerDialog } from "./TriggerDialog";

type Asked = "trigger" | "pause" | "backfill" | "delete";
const DIALOGS = { trigger: TriggerDialog, backfill: BackfillDialog, delete: DeleteDialog };

export function ScheduleActions({ schedule }: { schedule: Schedule }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [asked, setAsked] = useState<Asked | null>(null);
  const ref = refOf(schedule);
  const may = useMay("PATCH /schedules/{schedule_id}");
  const mayPause = useMay("POST /schedules/{schedule_id}/pause");
  const resume = useResume(ref);
  const close = () => setAsked(null);
  const AskedDialog = asked && asked !== "pause" ? DIALOGS[asked] : null;
  return (
    <>
      <Button disabled={!may} onClick={() => setAsked("trigger")}>
        <Zap size={14} aria-hidden />
        {c("triggerDots")}
      </Button>
      {schedule.paused ? (
        <Button kind="primary" disabled={!mayPause || resume.isPending} onClick={() => resume.mutate()}>
          <Play size={14} aria-hidden />
          {c("resume")}
        </Button>
      ) : (
        <Button disabled={!mayPause} onClick={() => setAsked("pause")}>
          <Pause size={14} aria-hidden />
          {c("pauseDots")}
        </Button>
      )}
      {may && (
        <ButtonLink href={scheduleHref(ref, "/edit")}>
          <Pencil size={14} aria-hidden />
          {t("edit")}
        </ButtonLink>
      )}
      <Menu
        align="end"
        trigger={<IconButton kind="normal" label={t("more")} icon={<Ellipsis size={16} />} />}
      >
        {!may && <MenuLabel>{c("needsScope")}</MenuLabel>}
        <MenuItem disabled={!may} onSelect={() => setAsked("backfill")}>
          <History size={14} aria-hidden />
          {t("backfill")}
        </MenuItem>
        <MenuLine />
        <MenuItem danger disabled={!may} onSelect={() => setAsked("delete")}>
          <Trash2 size={14} aria-hidden />
          {t("delete")}
        </MenuItem>
      </Menu>
      {asked === "pause" && <PauseDialog schedule={ref} onClose={close} />}
      {AskedDialog && <AskedDialog schedule={schedule} onClose={close} />}
    </>
  );
}

function DeleteDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const t = useMessages(messages);
  const ref = refOf(schedule);
  return (
    <ConfirmDialog
      title={t("deleteTitle", { schedule: ref.id })}
      width={440}
      text={t("deleteText")}
      confirm={t("doDelete")}
      back={t("keep")}
      refresh={[["schedules"]]}
      act={() => deleteSchedule(ref)}
      onDone={() => {
        showToast({ tone: "good", title: t("deleted", { schedule: ref.id }) });
        navigate(href("/schedules"));
      }}
      onClose={onClose}
    />
  );
}
