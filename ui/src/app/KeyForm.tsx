/** Where an API key is entered. */
import { type FormEvent, useState } from "react";
import { apiKey } from "../api/apiKey";
import { useMessages } from "../i18n/messages";
import { Button, Field, Input } from "../ui/controls";
import styles from "./KeyForm.module.css";
import { messages } from "./messages";

export function KeyForm() {
  const t = useMessages(messages);
  const [key, setKey] = useState("");
  const use = (event: FormEvent) => {
    event.preventDefault();
    apiKey.set(key.trim());
    setKey("");
  };
  return (
    <form className={styles.form} onSubmit={use}>
      <Field label={t("keyLabel")}>
        {(wired) => (
          <Input
            {...wired}
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        )}
      </Field>
      <Button type="submit" kind="primary" disabled={!key.trim()}>
        {t("keyUse")}
      </Button>
    </form>
  );
}
