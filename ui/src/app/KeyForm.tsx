import { type FormEvent, useState } from "react";
import { apiKey, isSendable } from "../api/apiKey";
import { useMessages } from "../i18n/messages";
import { Button } from "../ui/controls";
import { InputField } from "../ui/fields";
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
      <InputField
        label={t("keyLabel")}
        error={refused ? t("keyCharacters") : undefined}
        type="password"
        autoComplete="off"
        spellCheck={false}
        value={key}
        onChange={(value) => {
          setKey(value);
          setRefused(false);
        }}
      />
      <Button type="submit" kind="primary" disabled={!key.trim()}>
        {t("keyUse")}
      </Button>
    </form>
  );
}
