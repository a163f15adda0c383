/** Pause, drain and hide. Drain needs a confirmation. */
import { Ellipsis, Eye, EyeOff, LogOut, Pause, Play } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { api, body, type Schemas } from "../../api/client";
import { useAct } from "../../api/queries";
import { href } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button, IconButton } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { Menu, MenuItem, MenuLabel, MenuLine } from "../../ui/menus";
import { showToast } from "../../ui/toasts";
import { messages } from "./messages";
import styles from "./Workers.module.css";
import { hasStopped, type Worker } from "./workers";

export function WorkerActions({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  const [asking, setAsking] = useState(false);
  const { worker_id } = worker;
  const may = useMay("PATCH /workers/{worker_id}");
  const wish = useAct(
    (wanted: Schemas["WorkerPatch"]) =>
      api.PATCH("/workers/{worker_id}", {
        params: { path: { worker_id } },
        body: body<Schemas["WorkerPatch"]>(wanted),
      }),
    { refresh: [["workers"]] },
  );
  const hide = () =>
    wish.mutate(
      { hidden: true },
      {
        onSuccess: () =>
          showToast({
            tone: "good",
            title: t("isHidden", { worker: worker_id }),
            detail: t("hiddenStill"),
            link: { href: href("/workers", { hidden: "1" }), label: t("seeHidden") },
          }),
      },
    );
  return (
    <div className={styles.actions}>
      <Menu
        align="end"
        trigger={
          <IconButton
            label={t("actionsOf", { worker: worker_id })}
            icon={<Ellipsis size={16} aria-hidden />}
          />
        }
      >
        {!may && <MenuLabel>{t("needsScope")}</MenuLabel>}
        <MenuItem disabled={!may} onSelect={() => wish.mutate({ paused: !worker.paused })}>
          {worker.paused ? <Play size={14} aria-hidden /> : <Pause size={14} aria-hidden />}
          {worker.paused ? t("resume") : t("pause")}
        </MenuItem>
        {worker.hidden ? (
          <MenuItem disabled={!may} onSelect={() => wish.mutate({ hidden: false })}>
            <Eye size={14} aria-hidden />
            {t("show")}
          </MenuItem>
        ) : (
          <MenuItem disabled={!may} onSelect={hide}>
            <EyeOff size={14} aria-hidden />
            {t("hide")}
          </MenuItem>
        )}
        <MenuLine />
        <MenuItem
          danger
          disabled={!may || worker.draining || hasStopped(worker)}
          onSelect={() => setAsking(true)}
        >
          <LogOut size={14} aria-hidden />
          {t("drain")}
        </MenuItem>
      </Menu>
      {asking && (
        <DrainDialog
          worker={worker}
          busy={wish.isPending}
          onClose={() => setAsking(false)}
          onDrain={() => wish.mutate({ drain: true }, { onSettled: () => setAsking(false) })}
        />
      )}
    </div>
  );
}

interface DrainDialogProps {
  worker: Worker;
  busy: boolean;
  onClose: () => void;
  onDrain: () => void;
}

function DrainDialog({ worker, busy, onClose, onDrain }: DrainDialogProps) {
  const t = useMessages(messages);
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("drainTitle", { worker: worker.worker_id })}
      actions={
        <>
          <Button onClick={onClose}>{t("keepIt")}</Button>
          <Button kind="danger" disabled={busy} onClick={onDrain}>
            {t("doDrain")}
          </Button>
        </>
      }
    >
      <div className={styles.question}>
        <p>{t("drainText")}</p>
        {worker.slots_busy > 0 && <p>{t("drainBusy", { count: worker.slots_busy })}</p>}
        {worker.state === "DISCONNECTED" && <p>{t("drainAway")}</p>}
        <p className={styles.faint}>{t("drainFinal")}</p>
      </div>
    </Dialog>
  );
}
