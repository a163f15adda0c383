import styles from "./Api.module.css";

/** Text as it was sent or received. */
export function Code({ label, text }: { label: string; text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard.
    <pre className={styles.code} tabIndex={0} role="group" aria-label={label}>
      {text}
    </pre>
  );
}
