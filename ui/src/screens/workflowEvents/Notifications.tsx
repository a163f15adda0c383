/** The Google Chat webhook: masked, saved, cleared, tested. */

import { Bell } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useMay } from "../../api/access";
import { useAct } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { secondsOf } from "../../schedules/schedule";
import { type Summary, saveNotification, testNotification } from "../../triggers/eventApi";
import { EVENTS } from "../../triggers/eventToken";
import { messages as common } from "../../triggers/messages";
import { Outcome } from "../../triggers/Outcome";
import styles from "../../triggers/Triggers.module.css";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button } from "../../ui/controls";
import { Fact, FactList } from "../../ui/FactList";
import { InputField } from "../../ui/fields";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { Panel } from "../run/Panel";
import { messages } from "./messages";

type Settings = Summary["notification"];

export function Notifications({ settings }: { settings: Settings }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const may = useMay("POST /api/workflow-events/notification-settings");
  const [clearing, setClearing] = useState(false);
  const test = useAct(testNotification, {
    onDone: ({ sent, message }) =>
      showToast({
        tone: sent ? "good" : "bad",
        title: sent ? t("tested") : t("testFailed"),
        detail: message,
      }),
  });
  return (
    <Panel title={t("notification")} icon={Bell}>
      <div className={styles.body}>
        <p>{t("notificationText")}</p>
        <FactList>
          <Fact name={t("status")}>
            <Outcome
              outcome={settings.configured ? "success" : "none"}
              label={settings.configured ? t("configured") : t("notConfigured")}
            />
          </Fact>
          {settings.configured && !settings.inherited && (
            <Fact name={t("webhook")}>
              <code>{settings.webhook_url_masked}</code>
            </Fact>
          )}
          {settings.configured && (
            <Fact name={t("setBy")}>
              {settings.inherited ? t("inherited") : t(`source.${settings.source}`)}
            </Fact>
          )}
          {settings.updated_at && (
            <Fact name={c("changed")}>
              <Ago at={secondsOf(settings.updated_at)} />
            </Fact>
          )}
        </FactList>
        {may ? <SaveForm /> : <p className={styles.soft}>{c("needsScope")}</p>}
        <div className={styles.actions}>
          <Button
            disabled={!may || !settings.configured || settings.inherited || test.isPending}
            onClick={() => test.mutate()}
          >
            {t("testWebhook")}
          </Button>
          <Button
            kind="danger"
            disabled={!may || settings.source !== "file" || settings.inherited}
            onClick={() => setClearing(true)}
          >
            {t("clearWebhook")}
          </Button>
        </div>
      </div>
      {clearing && (
        <ConfirmDialog
          title={t("clearTitle")}
          text={t("clearText")}
          confirm={t("doClear")}
          refresh={[[EVENTS]]}
          act={() => saveNotification("")}
          onDone={() => showToast({ tone: "good", title: t("cleared") })}
          onClose={() => setClearing(false)}
        />
      )}
    </Panel>
  );
}

function SaveForm() {
  const t = useMessages(messages);
  const [url, setUrl] = useState("");
  const save = useAct(() => saveNotification(url.trim()), {
    quiet: true,
    refresh: [[EVENTS]],
    onDone: () => {
      setUrl("");
      showToast({ tone: "good", title: t("saved") });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (url.trim()) save.mutate();
  };
  return (
    <form className={styles.stack} onSubmit={submit}>
      <InputField
        label={t("newWebhook")}
        hint={t("newWebhookHint")}
        error={save.error?.detail}
        type="password"
        autoComplete="off"
        value={url}
        onChange={(value) => {
          save.reset();
          setUrl(value);
        }}
      />
      <div className={styles.actions}>
        <Button kind="primary" type="submit" disabled={!url.trim() || save.isPending}>
          {t("saveWebhook")}
        </Button>
      </div>
    </form>
  );
}
