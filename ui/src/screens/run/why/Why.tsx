/** The explanation of the gateway. */

import { ChevronRight, CircleHelp, Info, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { api, type Schemas } from "../../../api/client";
import { useRead } from "../../../api/queries";
import { useLanguage } from "../../../i18n/language";
import { useMessages } from "../../../i18n/messages";
import { Arming } from "../../../ui/arming";
import { joined } from "../../../ui/controls";
import { isTerminal, toneClass } from "../../../ui/status";
import { UserText } from "../../../ui/UserText";
import { JsonValue } from "../details/JsonValue";
import { type Run, type Task, withoutApiCall } from "../run";
import type { RunControls } from "../runControls";
import { ActionItem, withoutTwins } from "./ActionItem";
import { type Headline, headlineOf } from "./headline";
import { messages } from "./messages";
import { parkedText } from "./parked";
import styles from "./Why.module.css";

type Finding = Schemas["FindingView"];
const EVERY_MS = 5_000;
const MOST_NAMED = 3;
// Findings that need no explanation.
const PLAIN = new Set(["completed", "executing", "between_tasks"]);
// It does not go on until somebody does something about the workers.
const STUCK = new Set(["no_worker_for_tag", "workers_gone", "workers_paused", "executors_failing"]);

interface WhyProps {
  run: Run;
  tasks: readonly Task[];
  controls: RunControls;
  onSelect: (name: string | null) => void;
}

export function Why({ run, tasks, controls, onSelect }: WhyProps) {
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
  if (findings.length === 1 && PLAIN.has(first?.code ?? "")) return null;
  // Without an explanation, the run's error is nowhere else.
  const headline = first
    ? headlineOf(findings, tasks)
    : { text: why.error && run.error, tasks: [], error: null };
  if (headline.text === null && headline.tasks.length === 0) return null;
  const isStuck = STUCK.has(first?.code ?? "");
  const Icon = run.status === "FAILED" || isStuck ? TriangleAlert : over ? Info : CircleHelp;
  return (
    <section
      className={joined(styles.why, isStuck ? styles.stuck : toneClass(run.status))}
      aria-label={t("why")}
      data-stuck={isStuck || undefined}
    >
      <div className={styles.whyHead}>
        <Icon size={16} aria-hidden />
        <HeadlineText headline={headline} isWhole={open} onSelect={onSelect} />
        <button
          type="button"
          className={styles.whyMore}
          aria-expanded={open}
          onClick={() => setOpen((before) => !before)}
        >
          {t("whyMore")}
          <ChevronRight size={14} aria-hidden className={joined(open && styles.turned)} />
        </button>
      </div>
      {open && (
        <Arming>
          <ol className={styles.findings}>
            {findings.map((each, index) => (
              <FindingItem
                key={each.code}
                finding={each}
                isFirst={index === 0}
                run={run}
                controls={controls}
              />
            ))}
          </ol>
        </Arming>
      )}
    </section>
  );
}

interface HeadlineProps {
  headline: Headline;
  isWhole: boolean;
  onSelect: (name: string | null) => void;
}

function HeadlineText({ headline: { text, tasks, error }, isWhole, onSelect }: HeadlineProps) {
  const t = useMessages(messages);
  const isOne = text === null && tasks.length === 1;
  return (
    <p className={joined(styles.whyText, !isWhole && styles.clamped)}>
      {text !== null && <UserText text={text} />}
      {text === null && !isOne && `${t("tasksFailed", { count: tasks.length })} `}
      {tasks.slice(0, MOST_NAMED).map((name) => (
        <button type="button" key={name} className={styles.link} onClick={() => onSelect(name)}>
          <UserText text={isOne ? t("taskFailed", { task: name }) : name} />
        </button>
      ))}
      {error !== null && <UserText text={`: ${error}`} />}
      {tasks.length > MOST_NAMED && <span>{t("more", { count: tasks.length - MOST_NAMED })}</span>}
    </p>
  );
}

interface FindingProps {
  finding: Finding;
  isFirst: boolean;
  run: Run;
  controls: RunControls;
}

function FindingItem({ finding, isFirst, run, controls }: FindingProps) {
  const t = useMessages(messages);
  const actions = withoutTwins(finding.next.actions);
  return (
    <li className={styles.finding}>
      {!isFirst && (
        <p className={styles.findingText}>
          <UserText text={parkedText(finding) ?? withoutApiCall(finding.message)} />
        </p>
      )}
      <p>
        <strong>{t("ifNothingIsDone")}</strong> <UserText text={finding.next.by_itself} />
      </p>
      {actions.length > 0 && (
        <ul className={styles.nextActions}>
          {actions.map((action) => (
            <ActionItem key={action.code} action={action} run={run} controls={controls} />
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
