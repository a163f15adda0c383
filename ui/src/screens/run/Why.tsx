/** The explanation of the gateway. */

import { ChevronRight, CircleHelp, Info, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { useRead } from "../../api/queries";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { CopyButton } from "../../ui/Copy";
import { joined } from "../../ui/controls";
import { isTerminal, toneClass } from "../../ui/status";
import { UserText } from "../../ui/UserText";
import { JsonValue } from "./details/JsonValue";
import { messages } from "./messages";
import styles from "./Run.module.css";
import { type Run, withoutApiCall } from "./run";

type Finding = Schemas["FindingView"];
const EVERY_MS = 5_000;
// Findings that need no explanation.
const PLAIN = new Set(["completed", "executing", "between_tasks"]);

export function Why({ run }: { run: Run }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const [open, setOpen] = useState(false);
  const over = isTerminal(run.status);
  const why = useRead(
    ["explain", run.run_id, run.status, language],
    (signal) => api.GET("/runs/{run_id}/explain", { params: { path: { run_id: run.run_id } }, signal }),
    { every: over ? undefined : EVERY_MS, keep: true },
  );
  const findings = why.data?.findings ?? [];
  const [first] = findings;
  if (!first || (findings.length === 1 && PLAIN.has(first.code))) return null;
  const Icon = run.status === "FAILED" ? TriangleAlert : over ? Info : CircleHelp;
  return (
    <section className={joined(styles.why, toneClass(run.status))} aria-label={t("why")}>
      <button
        type="button"
        className={styles.whyHead}
        aria-expanded={open}
        onClick={() => setOpen((before) => !before)}
      >
        <Icon size={16} aria-hidden />
        <span className={joined(styles.whyText, !open && styles.clamped)}>
          <UserText text={withoutApiCall(first.message)} />
        </span>
        <span className={styles.whyMore}>
          {t("whyMore")}
          <ChevronRight size={14} aria-hidden className={joined(open && styles.turned)} />
        </span>
      </button>
      {open && (
        <ol className={styles.findings}>
          {findings.map((each, index) => (
            <FindingItem key={each.code} finding={each} repeated={index === 0} />
          ))}
        </ol>
      )}
    </section>
  );
}

function FindingItem({ finding, repeated }: { finding: Finding; repeated: boolean }) {
  const t = useMessages(messages);
  return (
    <li className={styles.finding}>
      {!repeated && (
        <p className={styles.findingText}>
          <UserText text={withoutApiCall(finding.message)} />
        </p>
      )}
      <p>
        <strong>{t("ifNothingIsDone")}</strong> <UserText text={finding.next.by_itself} />
      </p>
      {finding.next.actions.length > 0 && (
        <ul className={styles.nextActions}>
          {finding.next.actions.map(({ text, command }) => (
            <li key={text}>
              <span>
                <UserText text={text} />
              </span>
              {command && (
                <span className={styles.command}>
                  <code>{command}</code>
                  <CopyButton text={command} />
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
      <details className={styles.evidence}>
        <summary>
          {t("evidence")} <code>{finding.code}</code>
        </summary>
        <JsonValue value={finding.evidence} label={t("evidence")} />
      </details>
    </li>
  );
}
