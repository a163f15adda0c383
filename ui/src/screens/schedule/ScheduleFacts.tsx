/** The schedule in brief: what, when, and its rules. */
import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { interval } from "../../i18n/time";
import { cronShape } from "../../schedules/cron";
import { specText } from "../../schedules/describe";
import { messages as common } from "../../schedules/messages";
import { type Schedule, secondsOf } from "../../schedules/schedule";
import { usableZone, viewerZone, zonedTime } from "../../schedules/zones";
import { Fact, FactList } from "../../ui/FactList";
import { Labels, Tags } from "../../ui/Tags";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import styles from "./Schedule.module.css";

export function ScheduleFacts({ schedule }: { schedule: Schedule }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const language = useLanguage();
  const { spec } = schedule;
  const zoned = (at: number) => zonedTime(at, spec.timezone, language);
  return (
    <FactList className={styles.facts}>
      <Fact name={t("flow")}>
        <a href={href("/runs", { flow: schedule.flow_name })}>
          <UserText text={schedule.flow_name} />
        </a>
        {schedule.workflow_yaml && <Tags tags={["flow.yaml"]} />}
      </Fact>
      <Fact name={t("when")}>
        <span>{specText(spec, language)}</span>
        {spec.cron.some(cronShape) && <code className={styles.soft}>{spec.cron.join(" | ")}</code>}
      </Fact>
      <Fact name={t("zone")}>{spec.timezone}</Fact>
      <Fact name={t("next")}>
        <Next schedule={schedule} />
      </Fact>
      {(spec.start_at !== null || spec.end_at !== null) && (
        <Fact name={t("period")}>
          {spec.start_at !== null && <span>{t("from", { time: zoned(spec.start_at) })}</span>}
          {spec.end_at !== null && <span>{t("until", { time: zoned(spec.end_at) })}</span>}
        </Fact>
      )}
      {spec.exclude.length > 0 && (
        <Fact name={t("excluded")}>
          <code>{spec.exclude.join(" | ")}</code>
        </Fact>
      )}
      {spec.jitter_sec > 0 && (
        <Fact name={t("jitter")}>{t("upTo", { time: interval(spec.jitter_sec, language) })}</Fact>
      )}
      <Fact name={t("overlap")}>{c(`overlap.${schedule.overlap}`)}</Fact>
      {schedule.catchup_window_sec !== null && (
        <Fact name={t("catchup")}>{interval(schedule.catchup_window_sec, language)}</Fact>
      )}
      {schedule.pause_on_failure && <Fact name={t("onFailure")}>{t("pauses")}</Fact>}
      {schedule.remaining_runs !== null && <Fact name={t("remaining")}>{schedule.remaining_runs}</Fact>}
      {schedule.timeout_sec !== null && (
        <Fact name={t("limit")}>{interval(schedule.timeout_sec, language)}</Fact>
      )}
      {schedule.tag && (
        <Fact name={t("tag")}>
          <Labels labels={[...new Set([schedule.tag, ...schedule.tags])]} />
        </Fact>
      )}
      {schedule.tenant_id && (
        <Fact name={t("tenant")}>
          <UserText text={schedule.tenant_id} />
        </Fact>
      )}
      {/* That of a paused one is above: why it is. */}
      {!schedule.paused && schedule.note && (
        <Fact name={t("note")}>
          <UserText text={schedule.note} />
        </Fact>
      )}
      <Fact name={t("changed")}>
        <Ago at={schedule.updated_at} />
      </Fact>
    </FactList>
  );
}

function Next({ schedule: { paused, next_times: times, problem, spec } }: { schedule: Schedule }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const [first] = times;
  if (paused) return t("whenResumed");
  if (first === undefined) return t(problem ? "unknownNext" : "noNext");
  const at = secondsOf(first);
  return (
    <>
      <Ago at={at} />
      <span className={styles.soft}>{zonedTime(at, spec.timezone, language)}</span>
      {usableZone(spec.timezone) !== viewerZone && (
        <span className={styles.soft}>{t("yourTime", { time: zonedTime(at, viewerZone, language) })}</span>
      )}
    </>
  );
}
