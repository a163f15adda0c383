/** The next times of what is typed, in the schedule's and in the viewer's time zone. */
import type { Problem } from "../../api/problem";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { specText } from "../../schedules/describe";
import { EMPTY_SPEC, type Spec, secondsOf } from "../../schedules/schedule";
import { hasSeconds, usableZone, viewerZone, zonedTime } from "../../schedules/zones";
import { ProblemBox } from "../../ui/feedback";
import { Ago } from "../../ui/time";
import type { Draft } from "./draft";
import { specOf } from "./draft";
import { messages } from "./messages";
import styles from "./ScheduleForm.module.css";

interface PreviewProps {
  draft: Draft;
  times: readonly string[] | undefined;
  /** Times after this were not searched. */
  searchedUntil: string | null;
  problem: Problem | null;
  /** Whether every error is shown at its field. */
  isPlaced: boolean;
}

export function Preview({ draft, times, searchedUntil, problem, isPlaced }: PreviewProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const zone = draft.timezone.trim() || "UTC";
  const isElsewhere = usableZone(zone) !== viewerZone;
  const seconds = times?.some((time) => hasSeconds(secondsOf(time)));
  const inZone = (time: string, where: string) =>
    zonedTime(secondsOf(time), where, language, { bare: true, seconds });
  const spec = specOf(draft);
  const words = specText(
    {
      ...EMPTY_SPEC,
      cron: spec.cron,
      every_sec: Number(spec.every_sec) || null,
      at: spec.at as never,
    } as Spec,
    language,
  );
  return (
    <section className={styles.preview} aria-label={t("preview")}>
      <h2>{t("preview")}</h2>
      <p>{words}</p>
      {problem && !isPlaced && <ProblemBox problem={problem} />}
      {problem && isPlaced && <p className={styles.soft}>{t("previewWrong")}</p>}
      {!problem && times?.length === 0 && (
        <p className={styles.none}>
          {searchedUntil ? t("previewUnknown", { time: inZone(searchedUntil, zone) }) : t("previewNone")}
        </p>
      )}
      {!problem && times && times.length > 0 && (
        <table className={styles.times}>
          <thead>
            <tr>
              <th scope="col">{zone}</th>
              {isElsewhere && <th scope="col">{t("yourZone", { zone: viewerZone })}</th>}
              <th scope="col">
                <span className="hidden-visually">{t("startsIn")}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {times.map((time) => (
              <tr key={time}>
                <td>{inZone(time, zone)}</td>
                {isElsewhere && <td>{inZone(time, viewerZone)}</td>}
                <td className={styles.soft}>
                  <Ago at={secondsOf(time)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
