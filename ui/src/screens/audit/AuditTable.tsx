/** One row per action. */
import { useRestoredScroll } from "../../app/restoredState";
import { useQueryState } from "../../app/router";
import styles from "../../audit/Audit.module.css";
import type { Entry } from "../../audit/auditApi";
import {
  actorWord,
  EntryDetails,
  Outcome,
  Target,
  useActionText,
  useActorText,
  Who,
} from "../../audit/EntryParts";
import { messages } from "../../audit/messages";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { exactTime } from "../../i18n/time";
import { useRowKeys } from "../../ui/rowKeys";
import { Ago } from "../../ui/time";

export function AuditTable({ entries }: { entries: readonly Entry[] }) {
  const t = useMessages(messages);
  const body = useRowKeys<HTMLTableSectionElement>({ next: t("next"), previous: t("previous") });
  useRestoredScroll("audit", () => body.current?.closest("main"));
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">{t("when")}</th>
            <th scope="col">{t("who")}</th>
            <th scope="col">{t("action")}</th>
            <th scope="col">{t("target")}</th>
            <th scope="col">{t("outcome")}</th>
            <th scope="col">{t("details")}</th>
          </tr>
        </thead>
        <tbody ref={body}>
          {entries.map((entry) => (
            <Row key={entry.id} entry={entry} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const VIAS = ["cli", "api", "python", "dashboard", "mcp", "admin"] as const;

function Row({ entry }: { entry: Entry }) {
  const t = useMessages(messages);
  const action = useActionText();
  const actor = useActorText();
  const language = useLanguage();
  const [, change] = useQueryState();
  const via = VIAS.find((each) => each === entry.via);
  return (
    <tr data-entry={entry.id}>
      <td>
        <span className={styles.moment}>{exactTime(entry.at, language)}</span>
        <span className={styles.under}>
          <Ago at={entry.at} />
        </span>
      </td>
      <td>
        <button
          type="button"
          data-row
          className={styles.actor}
          title={t("onlyActor", { who: actor(entry) })}
          onClick={() => change({ actor: actorWord(entry), cursor: null })}
        >
          <Who entry={entry} />
        </button>
        <span className={styles.under}>{via ? t(`via.${via}`) : entry.via}</span>
      </td>
      <th scope="row" title={entry.action}>
        {action(entry.action)}
      </th>
      <td>
        <Target entry={entry} />
      </td>
      <td>
        <Outcome entry={entry} />
      </td>
      <td>{Object.keys(entry.details).length > 0 && <EntryDetails entry={entry} />}</td>
    </tr>
  );
}
