import { CircleAlert, CircleCheck, X } from "lucide-react";
import { useMessages } from "../i18n/messages";
import { useStore } from "../lib/store";
import { IconButton, joined } from "./controls";
import styles from "./feedback.module.css";
import { messages } from "./messages";
import { dismissToast, type Toast, toasts } from "./toasts";
import { UserText } from "./UserText";

export function ToastList() {
  const t = useMessages(messages);
  return (
    <section className={styles.toasts} aria-label={t("notifications")} aria-live="polite">
      {useStore(toasts).map((toast) => (
        <ToastView key={toast.id} toast={toast} />
      ))}
    </section>
  );
}

function ToastView({ toast }: { toast: Toast }) {
  const t = useMessages(messages);
  const bad = toast.tone === "bad";
  const Icon = bad ? CircleAlert : CircleCheck;
  return (
    <div className={joined(styles.toast, bad ? styles.toastBad : styles.toastGood)}>
      <Icon size={16} aria-hidden />
      <div>
        <strong>
          <UserText text={toast.title} />
        </strong>
        {toast.detail && (
          <p className={styles.toastText}>
            <UserText text={toast.detail} />
          </p>
        )}
        {toast.link && <a href={toast.link.href}>{toast.link.label}</a>}
      </div>
      <IconButton label={t("dismiss")} icon={<X size={14} />} onClick={() => dismissToast(toast.id)} />
    </div>
  );
}
