/** Warnings with their next action, or a note that there are none. */
import { CircleCheck, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { useWorkerSetup } from "../../api/workerSetup";
import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { listText, useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { relativeTime } from "../../i18n/time";
import { useNow } from "../../lib/clock";
import { withServer, workerCommand } from "../../lib/commands";
import { CopyButton } from "../../ui/Copy";
import { age } from "./age";
import styles from "./Home.module.css";
import { messages } from "./messages";
import type { Warning } from "./warnings";

/** Names beyond this number are only counted. */
const NAMED = 3;

export function WarningList({ warnings }: { warnings: readonly Warning[] }) {
  const t = useMessages(messages);
  const say = useWords();
  if (warnings.length === 0)
    return (
      <p className={styles.well} role="status">
        <CircleCheck size={15} aria-hidden />
        {t("allWell")}
      </p>
    );
  return (
    <section className={styles.warnings} aria-label={t("attention")}>
      <ul>
        {warnings.map((warning) => (
          <li key={JSON.stringify(keyOf(warning))} className={styles.warning} data-warning={warning.kind}>
            <TriangleAlert size={15} aria-hidden />
            <span className={styles.warningText}>{say(warning)}</span>
            <Next warning={warning} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Distinguishes warnings of one kind. */
const keyOf = (warning: Warning) => [
  warning.kind,
  "tag" in warning && warning.tag,
  "of" in warning && warning.of,
  "worker" in warning && warning.worker,
];

function useWords(): (warning: Warning) => string {
  const t = useMessages(messages);
  const language = useLanguage();
  const now = useNow();
  const named = (names: readonly string[], count = names.length): string => {
    const shown = names.slice(0, NAMED);
    const rest = count - shown.length;
    return listText([...shown, ...(rest > 0 ? [t("and", { count: rest })] : [])]);
  };
  return (warning) => {
    switch (warning.kind) {
      case "nats":
        return t("warn.nats", { detail: warning.detail });
      case "storage":
        return t(`warn.storage.${warning.cause}`, { detail: warning.detail });
      case "space": {
        const sizes = { free: fileSize(warning.free), limit: fileSize(warning.limit) };
        if (warning.of === "disk") return t("warn.space.disk", sizes);
        if (warning.of === "account") return t("warn.space.account", sizes);
        return t("warn.space.stream", { ...sizes, stream: warning.of });
      }
      case "index":
        return warning.runs === undefined
          ? t("warn.indexBehind", { behind: warning.behind })
          : t("warn.index", { runs: warning.runs, behind: warning.behind });
      case "unreadable": {
        const { count, records } = warning;
        return t("warn.unreadable", { count, names: named(records, count) });
      }
      case "lost": {
        const { tag, runs: count, others } = warning;
        return t(`warn.lost.${others}`, { tag, count, names: named(warning.lostBy) });
      }
      case "noWorker": {
        const { tag, waiting: count, oldestSec } = warning;
        return t("warn.noWorker", { tag, count, time: age(oldestSec) });
      }
      case "allHeld":
        return t("warn.allHeld", { tag: warning.tag, count: warning.waiting });
      case "slow": {
        const { tag, waiting: count, oldestSec } = warning;
        return t("warn.slow", { tag, count, time: age(oldestSec) });
      }
      case "alerts": {
        const { count, alerts } = warning;
        return t("warn.alerts", { count, names: named(alerts, count) });
      }
      case "expiring": {
        const when = relativeTime(warning.deadline, now, language) ?? t("now");
        return t("warn.expiring", { count: warning.count, when });
      }
      case "disconnected": {
        const { workers } = warning;
        return t("warn.disconnected", { count: workers.length, names: named(workers) });
      }
      case "wheels":
        return t("warn.wheels", { worker: warning.worker, error: warning.error });
      case "letters": {
        const count = warning.more ? t("orMore", { count: warning.count }) : warning.count;
        return t("warn.letters", { count, before: warning.before });
      }
    }
  };
}

function Next({ warning }: { warning: Warning }): ReactNode {
  const t = useMessages(messages);
  switch (warning.kind) {
    case "index":
      return null;
    case "nats":
      return <span className={styles.warningNext}>{t("act.health")}</span>;
    case "unreadable":
      return (
        <span className={styles.warningNext}>
          <Command text="pyoco-server-admin unreadable" />
        </span>
      );
    case "storage":
      return <span className={styles.warningNext}>{t(`act.storage.${warning.cause}`)}</span>;
    case "space":
      return <span className={styles.warningNext}>{t("act.space")}</span>;
    case "lost":
      return (
        <span className={styles.warningNext}>
          {warning.others === "none" && <WorkerCommand tag={warning.tag} />}
          {warning.others === "held" && <a href={href("/workers", { q: warning.tag })}>{t("act.resume")}</a>}
          <a href={href("/runs", { tag: warning.tag, status: ["RUNNING", "CANCELLING"] })}>{t("act.runs")}</a>
        </span>
      );
    case "noWorker":
      return (
        <span className={styles.warningNext}>
          <WorkerCommand tag={warning.tag} />
          <a href={href("/runs", { tag: warning.tag, status: "PENDING" })}>{t("act.runs")}</a>
        </span>
      );
    case "allHeld":
      return <NextLink to={href("/workers", { q: warning.tag })}>{t("act.resume")}</NextLink>;
    case "slow":
      return <NextLink to={href("/workers", { q: warning.tag })}>{t("act.workers")}</NextLink>;
    case "alerts":
      return <NextLink to={href("/alerts")}>{t("act.alerts")}</NextLink>;
    case "expiring":
      return <NextLink to={href("/inbox")}>{t("act.inbox")}</NextLink>;
    case "disconnected":
      return <NextLink to={href("/workers")}>{t("act.hide")}</NextLink>;
    case "wheels":
      return <NextLink to={href("/workers", { worker: warning.worker })}>{t("act.wheels")}</NextLink>;
    case "letters":
      return <NextLink to={href("/dlq")}>{t("act.letters")}</NextLink>;
  }
}

function NextLink({ to, children }: { to: string; children: string }) {
  return (
    <span className={styles.warningNext}>
      <a href={to}>{children}</a>
    </span>
  );
}

/** How to start a worker here. */
export function WorkerCommand({ tag }: { tag?: string }) {
  const { setup } = useWorkerSetup();
  return <Command text={workerCommand(setup?.command, tag)} />;
}

/** A command for a terminal. */
export function Command({ text }: { text: string }) {
  const command = withServer(text);
  return (
    <span className={styles.command}>
      <code>{command}</code>
      <CopyButton text={command} />
    </span>
  );
}
