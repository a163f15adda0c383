import { useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { CopyButton } from "../../../ui/Copy";
import { messages } from "../messages";
import styles from "./Details.module.css";
import { ownPieces, piecesOf } from "./traceback";

/** The frames of the user's code, the others on demand. */
export function Traceback({ text }: { text: string }) {
  const t = useMessages(messages);
  const [whole, setWhole] = useState(false);
  const pieces = piecesOf(text);
  const shown = whole ? pieces : ownPieces(pieces);
  const hidden = pieces.length - ownPieces(pieces).length;
  return (
    <>
      <div className={styles.value}>
        {/** biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows. */}
        <pre tabIndex={0} role="region" aria-label={t("traceback")}>
          {shown.map(({ lines, kind }, index) => (
            <span
              // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text have no other name.
              key={index}
              className={
                kind === "foreign" ? styles.foreign : index === shown.length - 1 ? styles.lastLine : undefined
              }
            >
              {visible(lines.join("\n"))}
              {"\n"}
            </span>
          ))}
        </pre>
        <CopyButton text={text} />
      </div>
      {hidden > 0 && (
        <button type="button" className={styles.frames} onClick={() => setWhole(!whole)}>
          {whole ? t("ownFrames") : t("moreFrames", { count: hidden })}
        </button>
      )}
    </>
  );
}
