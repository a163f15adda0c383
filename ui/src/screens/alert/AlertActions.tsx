/** The actions of an alert: send a test, mute, edit, delete. */

import { BellOff, BellRing, Ellipsis, Pencil, Send, Trash2 } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { useAct } from "../../api/queries";
import { href, navigate } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button, ButtonLink, IconButton, joined } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { InputField, SelectField } from "../../ui/fields";
import { Menu, MenuItem, MenuLabel } from "../../ui/menus";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import {
  type Alert,
  alertHref,
  alertRef,
  deleteAlert,
  muteAlert,
  testAlert,
  unmuteAlert,
} from "../alerts/alertApi";
import { messages } from "./messages";

type Asked = "test" | "mute" | "delete";
const DIALOGS = { test: TestDialog, mute: MuteDialog, delete: DeleteDialog };
const REFRESH = [["alert"], ["alerts"]];
const TIMES = ["1800", "7200", "86400", "604800", "none"] as const;

export function AlertActions({ alert }: { alert: Alert }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [asked, setAsked] = useState<Asked | null>(null);
  const may = useMay("PUT /alerts/{alert_id}");
  const unmute = useAct(() => unmuteAlert(alertRef(alert)), {
    refresh: REFRESH,
    onDone: () => showToast({ tone: "good", title: t("isUnmuted", { alert: alert.alert_id }) }),
  });
  const Asking = asked && DIALOGS[asked];
  return (
    <>
      {may && (
        <>
          <Button onClick={() => setAsked("test")}>
            <Send size={14} aria-hidden />
            {t("test")}
          </Button>
          {alert.mute ? (
            <Button disabled={unmute.isPending} onClick={() => unmute.mutate()}>
              <BellRing size={14} aria-hidden />
              {t("unmute")}
            </Button>
          ) : (
            <Button onClick={() => setAsked("mute")}>
              <BellOff size={14} aria-hidden />
              {t("mute")}
            </Button>
          )}
          <ButtonLink href={alertHref(alertRef(alert), "/edit")}>
            <Pencil size={14} aria-hidden />
            {c("edit")}
          </ButtonLink>
        </>
      )}
      <Menu
        align="end"
        trigger={<IconButton label={c("more")} icon={<Ellipsis size={16} />} kind="normal" />}
      >
        {!may && <MenuLabel>{c("needsScope")}</MenuLabel>}
        <MenuItem danger disabled={!may} onSelect={() => setAsked("delete")}>
          <Trash2 size={14} aria-hidden />
          {c("deleteIt")}
        </MenuItem>
      </Menu>
      {Asking && <Asking alert={alert} onClose={() => setAsked(null)} />}
    </>
  );
}

interface AskedProps {
  alert: Alert;
  onClose: () => void;
}

function TestDialog({ alert, onClose }: AskedProps) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const test = useAct(() => testAlert(alertRef(alert), null), { quiet: true });
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("testTitle", { alert: alert.alert_id })}
      width={520}
      actions={
        <>
          <Button onClick={onClose}>{c("close")}</Button>
          <Button kind="primary" disabled={test.isPending} onClick={() => test.mutate()}>
            <Send size={14} aria-hidden />
            {test.isPending ? t("testing") : t("testSend")}
          </Button>
        </>
      }
    >
      <div className={styles.dialog}>
        <p>{t("testText")}</p>
        {test.error && <ProblemBox problem={test.error} />}
        <div role="status">
          {test.data?.channels.map(({ channel, ok, error }) => (
            <p key={channel}>
              <UserText text={channel} />{" "}
              <span className={joined(styles.outcome, ok ? styles.good : styles.bad)}>
                {ok ? t("testOk") : t("testFailed", { why: error })}
              </span>
            </p>
          ))}
        </div>
      </div>
    </Dialog>
  );
}

function MuteDialog({ alert, onClose }: AskedProps) {
  const t = useMessages(messages);
  const [time, setTime] = useState<string>("7200");
  const [note, setNote] = useState("");
  return (
    <ConfirmDialog
      title={t("muteTitle", { alert: alert.alert_id })}
      text={t("muteText")}
      confirm={t("doMute")}
      kind="primary"
      refresh={REFRESH}
      act={() => muteAlert(alertRef(alert), time === "none" ? null : Number(time), note.trim())}
      onDone={() => showToast({ tone: "good", title: t("isMuted", { alert: alert.alert_id }) })}
      onClose={onClose}
    >
      <SelectField
        label={t("muteFor")}
        options={TIMES}
        text={(each) => t(`mute.${each}`)}
        value={time}
        onChange={setTime}
      />
      <InputField label={t("muteNote")} maxLength={1000} value={note} onChange={setNote} />
    </ConfirmDialog>
  );
}

function DeleteDialog({ alert, onClose }: AskedProps) {
  const t = useMessages(messages);
  const c = useMessages(common);
  return (
    <ConfirmDialog
      title={t("deleteTitle", { alert: alert.alert_id })}
      text={t("deleteText")}
      confirm={c("delete")}
      back={c("keep")}
      refresh={[["alerts"]]}
      act={() => deleteAlert(alertRef(alert))}
      onDone={() => {
        showToast({ tone: "good", title: c("isDeleted", { name: alert.alert_id }) });
        navigate(href("/alerts"));
      }}
      onClose={onClose}
    />
  );
}
