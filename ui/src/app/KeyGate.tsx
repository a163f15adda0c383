/** Shows a screen only to a key that the gateway takes, and asks for one before that. */
import { type ReactNode, useEffect } from "react";
import { apiKey } from "../api/apiKey";
import { api } from "../api/client";
import { queryClient, useRead } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { useStore } from "../lib/store";
import { ProblemBox } from "../ui/feedback";
import { KeyForm } from "./KeyForm";
import styles from "./KeyForm.module.css";
import { messages } from "./messages";
import { wantsApiKey } from "./served";

export function KeyGate({ children }: { children: ReactNode }) {
  return wantsApiKey ? <AskForKey>{children}</AskForKey> : children;
}

function AskForKey({ children }: { children: ReactNode }) {
  const t = useMessages(messages);
  const key = useStore(apiKey);
  // A question that every key may ask: whatever it is not for, a 403 of another kind says so.
  const { error } = useRead(
    ["key-check", key],
    (signal) => api.GET("/runs", { params: { query: { limit: 1 } }, signal }),
    { enabled: key !== "" },
  );
  const refused = error?.wantsKey ?? false;
  useEffect(() => watchForRefusal(), []);
  if (key && !refused) return children;
  return (
    <div className={styles.gate}>
      <h1>{t("keyTitle")}</h1>
      {refused && <ProblemBox problem={error} />}
      <p className={styles.soft}>{t("keyText")}</p>
      <KeyForm />
    </div>
  );
}

/** A key may be revoked while the page is open: any refusal has the key looked at again. */
function watchForRefusal(): () => void {
  return queryClient.getQueryCache().subscribe(({ type, query }) => {
    const { error } = query.state;
    if (type !== "updated" || query.queryKey[0] === "key-check" || query.state.fetchStatus !== "idle") return;
    if (error && "wantsKey" in error && error.wantsKey)
      void queryClient.invalidateQueries({ queryKey: ["key-check"] });
  });
}
