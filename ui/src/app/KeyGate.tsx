/** Shows a screen only with a valid key, and asks for one otherwise. */
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
import { wantsApiKey } from "./pageConfig";

export function KeyGate({ children }: { children: ReactNode }) {
  return wantsApiKey ? <AskForKey>{children}</AskForKey> : children;
}

function AskForKey({ children }: { children: ReactNode }) {
  const t = useMessages(messages);
  const key = useStore(apiKey);
  // An endpoint that every valid key may call.
  const { error } = useRead(["key-check", key], (signal) => api.GET("/key", { signal }), {
    enabled: key !== "",
  });
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

/** A key may be revoked while the page is open: every 403 causes a new check. */
function watchForRefusal(): () => void {
  return queryClient.getQueryCache().subscribe(({ type, query }) => {
    const { error } = query.state;
    if (type !== "updated" || query.queryKey[0] === "key-check" || query.state.fetchStatus !== "idle") return;
    if (error && "wantsKey" in error && error.wantsKey)
      void queryClient.invalidateQueries({ queryKey: ["key-check"] });
  });
}
