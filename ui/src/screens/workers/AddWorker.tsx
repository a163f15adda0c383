/** How to add a worker to this installation. */
import { Plus } from "lucide-react";
import { useState } from "react";
import { useWorkerSetup } from "../../api/workerSetup";
import { useMessages } from "../../i18n/messages";
import { CommandLine } from "../../ui/CommandLine";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { messages } from "./messages";
import styles from "./Workers.module.css";

/** For keys that may not know where NATS is. */
const GENERAL = "pyoco-worker --flows ./flows --nats-url nats://HOST:4222";

export function AddWorkerButton() {
  const t = useMessages(messages);
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        <Plus size={14} aria-hidden />
        {t("add")}
      </Button>
      <Dialog
        open={open}
        onClose={() => setOpen(false)}
        title={t("add")}
        width={620}
        actions={<Button onClick={() => setOpen(false)}>{t("close")}</Button>}
      >
        <AddWorker />
      </Dialog>
    </>
  );
}

export function AddWorker() {
  const t = useMessages(messages);
  const { may, setup } = useWorkerSetup();
  return (
    <div className={styles.add}>
      <p>{t("addText")}</p>
      <CommandLine text={setup?.command ?? GENERAL} />
      {setup?.needs_credentials && <p>{t("addCredentials")}</p>}
      {setup?.local && <p>{t("addLocal")}</p>}
      {!may && <p>{t("addGeneral")}</p>}
      <p>{t("addOptions")}</p>
      <p>{t("addAppears")}</p>
    </div>
  );
}
