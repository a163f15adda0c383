/** The next questions to answer. */

import type { Schemas } from "../../api/client";
import { href, pathTo } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Card } from "../../ui/Page";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import styles from "./Home.module.css";
import { messages } from "./messages";

const SHOWN = 4;

export function OpenQuestions({ waits }: { waits: Schemas["WaitPage"] | undefined }) {
  const t = useMessages(messages);
  if (!waits) return null;
  return (
    <Card title={t("inbox")} className={styles.list} actions={<a href={href("/inbox")}>{t("inboxAll")}</a>}>
      {waits.total === 0 && <p className={styles.nothing}>{t("noWaits")}</p>}
      <ul>
        {waits.items.slice(0, SHOWN).map((wait) => (
          <li key={wait.wait_id} className={styles.wait}>
            <a href={href(pathTo("/waits/:id", { id: wait.wait_id }))}>
              <UserText text={wait.message || wait.task} />
            </a>
            <span>
              <UserText text={wait.flow_name} />
              {wait.deadline_at !== null && (
                <>
                  {" · "}
                  {t("deadline")} <Ago at={wait.deadline_at} />
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
      {waits.total > SHOWN && <p className={styles.nothing}>{t("and", { count: waits.total - SHOWN })}</p>}
    </Card>
  );
}
