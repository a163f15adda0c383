/** What was done to the run since it was submitted: the newest entries of the audit log. */
import { useMay } from "../../../api/access";
import { useRead } from "../../../api/queries";
import { href } from "../../../app/router";
import styles from "../../../audit/Audit.module.css";
import { readAudit } from "../../../audit/auditApi";
import { EntryDetails, Outcome, useActionText, Who } from "../../../audit/EntryParts";
import { messages } from "../../../audit/messages";
import { useMessages } from "../../../i18n/messages";
import { Card } from "../../../ui/Page";
import { Ago } from "../../../ui/time";
import type { Run } from "../run";
import { isTooLate } from "./tooLate";

const SHOWN = 5;
const EVERY_MS = 10_000;

/** Nothing for a key that may not read the log, and nothing while there is nothing to say. */
export function RunAudit({ run }: { run: Run }) {
  const t = useMessages(messages);
  const action = useActionText();
  const may = useMay("GET /audit");
  const { data } = useRead(
    ["audit", "run", run.run_id, run.updated_at],
    (signal) => readAudit({ run_id: run.run_id }, { limit: SHOWN }, signal),
    { enabled: may, keep: true, every: EVERY_MS },
  );
  if (!may || !data || data.items.length === 0) return null;
  return (
    <Card title={t("ofRun")} actions={<a href={href("/audit", { run_id: run.run_id })}>{t("allOfRun")}</a>}>
      <ul className={styles.list}>
        {data.items.map((entry) => (
          <li key={entry.id}>
            <Ago at={entry.at} />
            <strong title={entry.action}>{action(entry.action)}</strong>
            <Who entry={entry} />
            {entry.outcome !== "accepted" && <Outcome entry={entry} />}
            {isTooLate(entry, run) && <span className={styles.soft}>{t("tooLate")}</span>}
            <EntryDetails entry={entry} />
          </li>
        ))}
      </ul>
    </Card>
  );
}
