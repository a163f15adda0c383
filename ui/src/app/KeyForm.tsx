import { type FormEvent, useState } from "react";
import { apiKey, isSendable } from "../api/apiKey";
import { useMessages } from "../i18n/messages";
import { Button, Field, Input } from "../ui/controls";
import styles from "./KeyForm.module.css";
import { messages } from "./messages";

export function KeyForm() {
  const t = useMessages(messages);
  const [key, setKey] = useState("");
  const [refused, setRefused] = useState(false);
  const use = (event: FormEvent) => {
    event.preventDefault();
    const given = key.trim();
    if (!isSendable(given)) return setRefused(true);
    apiKey.set(given);
    setKey("");
  };
  return (
    <form className={styles.form} onSubmit={use}>
      <Field label={t("keyLabel")} error={refused ? t("keyCharacters") : undefined}>
        {(wired) => (
          <Input
            {...wired}
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={key}
            onChange={(event) => {
              setKey(event.target.value);
              setRefused(false);
            }}
          />
        )}
      </Field>
      <Button type="submit" kind="primary" disabled={!key.trim()}>
        {t("keyUse")}
      </Button>
    </form>
  );
}
