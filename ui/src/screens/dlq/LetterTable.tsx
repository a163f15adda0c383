import { useRestoredScroll } from "../../app/restoredState";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { useRowKeys } from "../../ui/rowKeys";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import styles from "./Dlq.module.css";
import type { Letter } from "./letters";
import { messages } from "./messages";
import { useReasonText } from "./reasons";

/** One row per letter. */
export function LetterTable({ letters }: { letters: readonly Letter[] }) {
  const t = useMessages(messages);
  const reason = useReasonText();
  const [, change] = useQueryState();
  const body = useRowKeys<HTMLTableSectionElement>({ next: t("nextLetter"), previous: t("previousLetter") });
  useRestoredScroll("dlq", () => body.current?.closest("main"));
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">{t("when")}</th>
            <th scope="col">{t("why")}</th>
            <th scope="col">{t("flow")}</th>
            <th scope="col">{t("worker")}</th>
            <th scope="col">{t("error")}</th>
          </tr>
        </thead>
        <tbody ref={body}>
          {letters.map((letter) => (
            <tr key={letter.seq} data-letter={letter.seq}>
              <td>
                <Ago at={letter.timestamp} />
              </td>
              <td className={styles.reason}>{reason(letter.reason)}</td>
              <th scope="row">
                <button
                  type="button"
                  data-row
                  className={styles.open}
                  onClick={() => change({ seq: String(letter.seq) })}
                >
                  <span
                    className={styles.name}
                    title={letter.flow_name ? visible(letter.flow_name) : undefined}
                  >
                    <UserText text={letter.flow_name ?? t("noFlow")} />
                  </span>
                  {letter.run_id && <code>{letter.run_id.slice(0, 8)}</code>}
                </button>
              </th>
              <td>
                <UserText text={letter.worker_id ?? ""} />
              </td>
              <td className={styles.error} title={letter.error ? visible(letter.error) : undefined}>
                <UserText text={letter.error ?? ""} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
