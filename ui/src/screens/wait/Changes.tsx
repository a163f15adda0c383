/** The changes of an edited proposal. */

import { useMemo } from "react";
import { useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { joined } from "../../ui/controls";
import { UserText } from "../../ui/UserText";
import styles from "./Changes.module.css";
import { type Change, changesOf, linesOf } from "./changes";
import { shortJson } from "./JsonView";
import { messages } from "./messages";

export function Changes({ before, after }: { before: unknown; after: unknown }) {
  const t = useMessages(messages);
  const changes = useMemo(() => changesOf(before, after), [before, after]);
  return (
    <section className={styles.changes} aria-label={t("changes")}>
      <h3>
        {t("changes")}
        <span className={styles.count}>{changes.length > 0 ? changes.length : t("noChanges")}</span>
      </h3>
      {changes.map((change) => (
        <ChangeView key={shortJson(change.path)} change={change} />
      ))}
    </section>
  );
}

function ChangeView({ change }: { change: Change }) {
  const t = useMessages(messages);
  const { path, before, after } = change;
  const isLong = typeof before === "string" && typeof after === "string" && /\n/.test(before + after);
  return (
    <div className={styles.change}>
      <code className={styles.path}>{path.length > 0 ? visible(path.join(".")) : t("whole")}</code>
      {isLong ? (
        <div className={styles.lines}>
          {linesOf(before, after).map(({ kind, text }, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a line has nothing else that tells it apart.
            <Piece key={at} kind={kind} text={text || " "} />
          ))}
        </div>
      ) : (
        <div className={styles.lines}>
          {"before" in change && <Piece kind="removed" text={plain(before)} />}
          {"after" in change && <Piece kind="added" text={plain(after)} />}
        </div>
      )}
    </div>
  );
}

function Piece({ kind, text }: { kind: "same" | "removed" | "added"; text: string }) {
  const t = useMessages(messages);
  const Tag = kind === "removed" ? "del" : kind === "added" ? "ins" : "span";
  return (
    <Tag className={joined(styles.piece, styles[kind])}>
      {kind !== "same" && <span className="hidden-visually">{t(`piece.${kind}`)} </span>}
      <UserText text={text} />
    </Tag>
  );
}

const plain = (value: unknown) => (typeof value === "string" && value ? value : shortJson(value));
