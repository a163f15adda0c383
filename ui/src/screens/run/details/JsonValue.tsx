/** Formatted JSON with a copy button. */
import { useMessages } from "../../../i18n/messages";
import { fileSize } from "../../../i18n/size";
import { jsonText } from "../../../lib/exactJson";
import { visible, visibleJson } from "../../../lib/visible";
import { CopyButton } from "../../../ui/Copy";
import { messages } from "../messages";
import styles from "./Details.module.css";
import { truncatedValueOf } from "./truncated";

interface JsonValueProps {
  value: unknown;
  label: string;
}

const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
// Only short values are highlighted: long ones would need thousands of elements.
const MOST_COLOURED = 20_000;

export function JsonValue({ value, label }: JsonValueProps) {
  const t = useMessages(messages);
  const cut = truncatedValueOf(value);
  // Escaped line breaks are hard to read.
  const lines = typeof value === "string" && value.includes("\n") ? value : null;
  const text = cut ? visible(cut.preview) : lines ? visible(lines) : visibleJson(jsonText(value, 2));
  return (
    <>
      {cut && <p className={styles.soft}>{t("firstPart", { size: fileSize(cut.bytes) })}</p>}
      <div className={styles.value}>
        {/** biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows. */}
        <pre tabIndex={0} aria-label={label} role="region">
          {cut || lines || text.length > MOST_COLOURED ? text : coloured(text)}
        </pre>
        <CopyButton text={cut?.preview ?? (typeof value === "string" ? value : text)} />
      </div>
    </>
  );
}

function coloured(text: string) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [all, string, colon, word, number] = found;
    const kind = string
      ? colon
        ? styles.key
        : styles.string
      : word
        ? styles.word
        : number
          ? styles.number
          : "";
    const shown = string && colon ? string : all;
    parts.push(
      text.slice(at, found.index),
      <span key={found.index} className={kind}>
        {shown}
      </span>,
    );
    at = found.index + shown.length;
  }
  return [...parts, text.slice(at)];
}
