/** The wheels of a worker, and its last sync. */

import type { ReactNode } from "react";
import { useMessages } from "../../i18n/messages";
import { joined } from "../../ui/controls";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import { Fact } from "./WorkerDetails";
import styles from "./Workers.module.css";
import type { Worker } from "./workers";

export function WheelSync({ sync }: { sync: Worker["wheel_sync"] }) {
  const t = useMessages(messages);
  const failed = sync.last_result === "error";
  return (
    <section>
      <h3>{t("wheels")}</h3>
      <p className={joined(failed ? styles.failed : styles.soft)}>{t(`sync.${sync.last_result}`)}</p>
      {sync.error && (
        <pre className={styles.syncError}>
          <UserText text={sync.error} />
        </pre>
      )}
      {sync.enabled && (
        <>
          <dl className={styles.facts}>
            <Fact name={t("lastAttempt")}>
              <Ago at={sync.last_attempt_at} />
            </Fact>
            <Fact name={t("lastSynced")}>
              <Ago at={sync.last_synced_at} />
            </Fact>
          </dl>
          <WheelList title={t("installed")} empty={t("none")}>
            {sync.installed_wheels.map((wheel) => (
              <li key={wheel.nuid} title={wheel.name}>
                {wheel.package} <code>{wheel.version}</code>
              </li>
            ))}
          </WheelList>
          <WheelList title={t("skipped")}>
            {sync.skipped_incompatible.map((wheel) => (
              <li key={wheel.name}>
                <code>{wheel.name}</code>
                <p className={styles.faint}>
                  <UserText text={wheel.reason} />
                </p>
              </li>
            ))}
          </WheelList>
          <WheelList title={t("updated")}>
            {sync.updated_wheels.map((name) => (
              <li key={name}>
                <code>{name}</code>
              </li>
            ))}
          </WheelList>
          <WheelList title={t("removed")}>
            {sync.removed_wheels.map((name) => (
              <li key={name}>
                <code>{name}</code>
              </li>
            ))}
          </WheelList>
        </>
      )}
    </section>
  );
}

interface WheelListProps {
  title: string;
  children: ReactNode[];
  /** The text for an empty list; default: nothing. */
  empty?: string;
}

function WheelList({ title, children, empty }: WheelListProps) {
  if (children.length === 0 && !empty) return null;
  return (
    <div>
      <h4 className={styles.label}>{title}</h4>
      {children.length > 0 ? <ul>{children}</ul> : <p className={styles.faint}>{empty}</p>}
    </div>
  );
}
