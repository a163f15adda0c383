/** First steps on a server without runs. */
import { CircleCheck } from "lucide-react";
import { href } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { ButtonLink } from "../../ui/controls";
import { Card } from "../../ui/Page";
import styles from "./Home.module.css";
import { messages } from "./messages";
import { Command, WorkerCommand } from "./WarningList";

export function FirstSteps({ workers }: { workers: number }) {
  const t = useMessages(messages);
  const isServed = workers > 0;
  return (
    <Card title={t("startTitle")} className={styles.first}>
      <ol className={styles.steps}>
        <li>
          <span className={styles.stepMark}>
            {isServed ? <CircleCheck size={18} aria-label={t("done")} /> : "1"}
          </span>
          <h3>{t("startWorker")}</h3>
          {isServed ? (
            <p>{t("startWorkerDone", { count: workers })}</p>
          ) : (
            <>
              <p>{t("startWorkerText")}</p>
              <WorkerCommand />
            </>
          )}
        </li>
        <li>
          <span className={styles.stepMark}>2</span>
          <h3>{t("startRun")}</h3>
          <p>{t("startRunText")}</p>
          <Command text="pyoco-client submit --flow-name hello --wait" />
          <div>
            <ButtonLink kind={isServed ? "primary" : "normal"} href={href("/submit")}>
              {t("submit")}
            </ButtonLink>
          </div>
        </li>
      </ol>
    </Card>
  );
}
