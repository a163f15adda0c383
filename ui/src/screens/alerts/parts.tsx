/** What the screens of alerts share: the state of an alert, and what it watches. */
import { useMessages } from "../../i18n/messages";
import styles from "../../triggers/Triggers.module.css";
import { joined } from "../../ui/controls";
import { UserText } from "../../ui/UserText";
import type { Alert, Message } from "./alertApi";
import { messages } from "./messages";

const TONES: Record<string, string | undefined> = {
  delivered: styles.good,
  failed: styles.bad,
  pending: styles.busy,
};

export function AlertState({ alert }: { alert: Alert }) {
  const t = useMessages(messages);
  return (
    <>
      <span className={joined(styles.outcome, alert.firing ? styles.bad : styles.good)}>
        {alert.firing ? t("firing") : t("ok")}
      </span>{" "}
      {alert.mute && <span className={joined(styles.outcome, styles.busy)}>{t("muted")}</span>}
    </>
  );
}

export function MessageState({ state }: { state: Message["state"] }) {
  const t = useMessages(messages);
  return (
    <span className={joined(styles.outcome, TONES[state] ?? styles.calm)}>
      {t(`message.${state as "pending"}`)}
    </span>
  );
}

export function Watched({ alert: { rule } }: { alert: Alert }) {
  const t = useMessages(messages);
  return <UserText text={rule.flow_name ?? t("tagName", { tag: rule.tag ?? "" })} />;
}
