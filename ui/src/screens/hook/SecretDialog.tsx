/** A new secret, shown once. */
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import type { Hook } from "../../triggers/hookApi";
import styles from "../../triggers/Triggers.module.css";
import { CommandLine } from "../../ui/CommandLine";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { addressOf, curlExample } from "./curl";
import { Example } from "./Example";
import { messages } from "./messages";
import { newSecret } from "./newSecret";

export function SecretDialog({ hook }: { hook: Hook }) {
  const t = useMessages(messages);
  const kept = useStore(newSecret);
  if (kept?.hookId !== hook.hook_id) return null;
  const close = () => newSecret.set(null);
  return (
    <Dialog
      open
      onClose={close}
      title={t("secretTitle", { hook: hook.hook_id })}
      width={620}
      actions={
        <Button kind="primary" onClick={close}>
          {t("secretCopied")}
        </Button>
      }
    >
      <div className={styles.dialog}>
        <p>{t("secretText")}</p>
        <CommandLine text={kept.secret} />
        <p className={styles.soft}>{t("address")}</p>
        <CommandLine text={addressOf(hook)} />
        <Example text={curlExample(hook, addressOf(hook), kept.secret)} />
      </div>
    </Dialog>
  );
}
