import styles from "./CommandLine.module.css";
import { CopyButton } from "./Copy";

/** A command for a terminal, with a copy button. */
export function CommandLine({ text }: { text: string }) {
  return (
    <div className={styles.command}>
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}
