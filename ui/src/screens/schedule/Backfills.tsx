/** The backfills in progress, and the dialog that cancels one. */

import { History } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import type { Schemas } from "../../api/client";
import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { REFRESH } from "../../schedules/actions";
import type { Schedule } from "../../schedules/schedule";
import { cancelBackfill } from "../../schedules/scheduleApi";
import { refOf, type ScheduleRef } from "../../schedules/scheduleRef";
import { zonedTime } from "../../schedules/zones";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button } from "../../ui/controls";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { Panel } from "../run/Panel";
import { messages } from "./messages";
import styles from "./Schedule.module.css";
import { useBackfills } from "./useScheduleData";

type Backfill = Schemas["BackfillItem"];

export function Backfills({ schedule }: { schedule: Schedule }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const ref = refOf(schedule);
  const may = useMay("DELETE /schedules/{schedule_id}/backfills/{backfill_id}");
  const backfills = useBackfills(ref, schedule.backfills.length > 0);
  const [asked, setAsked] = useState<Backfill | null>(null);
  const zoned = (at: number) => zonedTime(at, schedule.spec.timezone, language);
  return (
    <>
      {backfills.length > 0 && (
        <Panel title={t("backfills")} icon={History}>
          <ul className={styles.rows}>
            {backfills.map((each) => (
              <li key={each.backfill_id} className={styles.backfill} data-backfill={each.backfill_id}>
                <span>{t("range", { from: zoned(each.from), until: zoned(each.to) })}</span>
                <span>{t("backfillProgress", { started: each.started, remaining: each.remaining })}</span>
                <span className={styles.soft}>
                  <Ago at={each.requested_at} /> {each.requested_by && <UserText text={each.requested_by} />}
                </span>
                <Button disabled={!may} onClick={() => setAsked(each)}>
                  {t("cancelBackfill")}
                </Button>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      {asked && <CancelDialog schedule={ref} backfill={asked} onClose={() => setAsked(null)} />}
    </>
  );
}

interface CancelDialogProps {
  schedule: ScheduleRef;
  backfill: Backfill;
  onClose: () => void;
}

function CancelDialog({ schedule, backfill, onClose }: CancelDialogProps) {
  const t = useMessages(messages);
  return (
    <ConfirmDialog
      title={t("cancelBackfillTitle")}
      text={t("cancelBackfillText", { count: backfill.remaining })}
      confirm={t("doCancelBackfill")}
      refresh={REFRESH}
      act={() => cancelBackfill(schedule, backfill.backfill_id)}
      onDone={({ skipped }) =>
        showToast({
          tone: "good",
          title: t("backfillCancelled", { count: skipped }),
          link: { href: href("/runs", { cause: `schedule:${schedule.id}` }), label: t("showRuns") },
        })
      }
      onClose={onClose}
    >
      <p className={styles.soft}>{t("cancelBackfillRuns", { count: backfill.started })}</p>
    </ConfirmDialog>
  );
}
