/** Commands for a terminal, to be copied. */
import { useMessages } from "../../i18n/messages";
import styles from "../../triggers/Triggers.module.css";
import { CopyButton } from "../../ui/Copy";
import local from "./Hook.module.css";
import { messages } from "./messages";

export function Example({ text }: { text: string }) {
  const t = useMessages(messages);
  return (
    <>
      <p className={styles.soft}>{t("example")}</p>
      <div className={local.example}>
        <pre role="region" aria-label={t("example")}>
          {text}
        </pre>
        <CopyButton text={text} />
      </div>
    </>
  );
}
