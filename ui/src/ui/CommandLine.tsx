import { withServer } from "../lib/commands";
import styles from "./CommandLine.module.css";
import { CopyButton } from "./Copy";

/** A command for a terminal, with a copy button; one of pyoco-client names this gateway. */
export function CommandLine({ text }: { text: string }) {
  const command = withServer(text);
  return (
    <div className={styles.command}>
      <code>{command}</code>
      <CopyButton text={command} />
    </div>
  );
}
