/** The screen of one schedule: its rules, its calendar and its history. */
import { CirclePause, FileJson, type LucideIcon, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { usePlace } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { PauseNote } from "../../schedules/PauseNote";
import { ScheduleStateBadge } from "../../schedules/ScheduleStateBadge";
import type { Schedule } from "../../schedules/schedule";
import { refOf } from "../../schedules/scheduleRef";
import { ProblemBox } from "../../ui/feedback";
import { Page } from "../../ui/Page";
import { LoadingPage, NotFoundPage } from "../../ui/pageStates";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import { JsonValue } from "../run/details/JsonValue";
import { Panel } from "../run/Panel";
import { useServedTags } from "../submit/suggestions";
import { Backfills } from "./Backfills";
import { Calendar } from "./Calendar";
import { Decisions, Runs } from "./History";
import { messages } from "./messages";
import styles from "./Schedule.module.css";
import { ScheduleActions } from "./ScheduleActions";
import { ScheduleFacts } from "./ScheduleFacts";
import { useRecentRuns, useSchedule } from "./useScheduleData";

export default function Screen({ params }: ScreenProps) {
  const id = params.id ?? "";
  const tenant = usePlace().query.get("tenant");
  return <ScheduleScreen key={`${tenant} ${id}`} id={id} tenant={tenant} />;
}

function ScheduleScreen({ id, tenant }: { id: string; tenant: string | null }) {
  const t = useMessages(messages);
  const { data, error, refetch } = useSchedule({ id, tenant });
  if (error?.status === 404)
    return (
      <NotFoundPage
        title={t("title")}
        heading={t("notFound")}
        list={{ path: "/schedules", label: t("allSchedules") }}
      >
        {t("notFoundText")}
      </NotFoundPage>
    );
  if (!data) return <LoadingPage title={id} problem={error} onRetry={refetch} />;
  return (
    <>
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      <Shown schedule={data} />
    </>
  );
}

/** Why nothing starts, or why what starts does not go on. */
function Notices({ schedule }: { schedule: Schedule }) {
  const t = useMessages(messages);
  const { isUnserved } = useServedTags();
  return (
    <>
      {schedule.paused && (
        <Notice icon={CirclePause}>
          <p>{schedule.note ? <PauseNote note={schedule.note} /> : t("pausedNoNote")}</p>
          {schedule.paused_at !== null && (
            <p className={styles.soft}>
              {t("pausedSince")} <Ago at={schedule.paused_at} />
            </p>
          )}
        </Notice>
      )}
      {schedule.problem && (
        <Notice icon={TriangleAlert}>
          {t("undecided")} <UserText text={schedule.problem} />
        </Notice>
      )}
      {isUnserved(schedule.tag) && (
        <Notice icon={TriangleAlert}>{t("noWorker", { tag: schedule.tag })}</Notice>
      )}
    </>
  );
}

function Notice({ icon: Icon, children }: { icon: LucideIcon; children: ReactNode }) {
  return (
    <div className={styles.notice} role="status">
      <Icon size={16} aria-hidden />
      <div>{children}</div>
    </div>
  );
}

function Shown({ schedule }: { schedule: Schedule }) {
  const t = useMessages(messages);
  const { runs: recent } = useRecentRuns(refOf(schedule));
  return (
    <Page
      title={schedule.schedule_id}
      note={
        <ScheduleStateBadge
          paused={schedule.paused}
          ended={schedule.next_times.length === 0 && !schedule.problem}
        />
      }
      actions={<ScheduleActions schedule={schedule} />}
    >
      <Notices schedule={schedule} />
      <ScheduleFacts schedule={schedule} />
      <div className={styles.parts}>
        <Backfills schedule={schedule} />
        <Calendar schedule={schedule} recent={recent ?? []} />
        <div className={styles.columns}>
          <Decisions schedule={schedule} runs={recent ?? []} />
          <div className={styles.column}>
            <Runs id={schedule.schedule_id} runs={recent} />
            <Panel title={t("params")} icon={FileJson}>
              <div className={styles.params}>
                {Object.keys(schedule.params).length > 0 ? (
                  <JsonValue
                    value={schedule.params}
                    label={t("paramsOf", { schedule: schedule.schedule_id })}
                  />
                ) : (
                  <p className={styles.soft}>{t("noParams")}</p>
                )}
              </div>
            </Panel>
          </div>
        </div>
      </div>
    </Page>
  );
}
