/** Names the letters that an action will touch. */
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import styles from "./Dlq.module.css";
import type { LetterFilter } from "./filters";
import type { Letter } from "./letters";
import { messages } from "./messages";
import { useReasonText } from "./reasons";

const SHOWN = 5;

interface TouchedLettersProps {
  letters: readonly Letter[];
  /** All that are touched, of which `letters` may be the first. */
  count: number;
}

export function TouchedLetters({ letters, count }: TouchedLettersProps) {
  const t = useMessages(messages);
  const reason = useReasonText();
  const shown = letters.slice(0, SHOWN);
  return (
    <div className={styles.touched}>
      <ul>
        {shown.map((letter) => (
          <li key={letter.seq} data-touched={letter.seq}>
            <strong>
              <UserText text={letter.flow_name ?? t("noFlow")} />
            </strong>
            {letter.run_id && <code>{letter.run_id.slice(0, 8)}</code>}
            <span className={styles.soft}>
              {reason(letter.reason)} · <Ago at={letter.timestamp} />
            </span>
          </li>
        ))}
      </ul>
      {count > shown.length && <p className={styles.soft}>{t("andMore", { count: count - shown.length })}</p>}
    </div>
  );
}

/** The first of the letters that match. */
export function MatchingLetters({ filter, count }: { filter: LetterFilter; count: number }) {
  const { data } = useRead(["dlq", "touched", JSON.stringify(filter)], (signal) =>
    api.GET("/dlq", { params: { query: { ...filter, limit: SHOWN } }, signal }),
  );
  return <TouchedLetters letters={data?.items ?? []} count={count} />;
}
