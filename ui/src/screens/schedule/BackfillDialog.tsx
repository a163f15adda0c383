import { useRef, useState } from "react";
import { Attempt } from "../../api/idempotencyKey";
import { useAct, useRead } from "../../api/queries";
import { href } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { REFRESH } from "../../schedules/actions";
import { messages as common } from "../../schedules/messages";
import { OVERLAPS, type Overlap, type Schedule, secondsOf } from "../../schedules/schedule";
import { backfillSchedule, countBackfill } from "../../schedules/scheduleApi";
import { refOf } from "../../schedules/scheduleRef";
import { useSettled } from "../../schedules/useSettled";
import { addDays, dayOf, zonedTime } from "../../schedules/zones";
import { FormDialog } from "../../ui/FormDialog";
import { ProblemBox } from "../../ui/feedback";
import { InputField, SelectField } from "../../ui/fields";
import { showToast } from "../../ui/toasts";
import { messages } from "./messages";
import styles from "./Schedule.module.css";

const EXAMPLES = 3;

/** Counts the occurrences of a period first, then starts them. */
export function BackfillDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const ref = refOf(schedule);
  const zone = schedule.spec.timezone;
  const today = dayOf(Date.now() / 1000, zone);
  const [from, setFrom] = useState(`${addDays(today, -1)}T00:00`);
  const [to, setTo] = useState(`${today}T00:00`);
  const [overlap, setOverlap] = useState<Overlap>("buffer_all");
  const request = { from, to, overlap };
  const period = useSettled(JSON.stringify({ from, to }));
  const count = useRead(
    ["schedule", "backfill", ref.id, ref.tenant, period],
    () => countBackfill(ref, JSON.parse(period)),
    { enabled: from !== "" && to !== "" },
  );
  const isCounted = count.data !== undefined && period === JSON.stringify({ from, to });
  const counted = isCounted ? count.data : undefined;
  const attempt = useRef(new Attempt());
  const key = () => attempt.current.keyFor(JSON.stringify(request));
  const begin = useAct(() => backfillSchedule(ref, { ...request, dry_run: false }, key()), {
    quiet: true,
    refresh: REFRESH,
    onDone: ({ count }) => {
      showToast({
        tone: "good",
        title: t("backfilled", { count }),
        link: { href: href("/runs", { cause: `schedule:${ref.id}` }), label: t("showRuns") },
      });
      onClose();
    },
  });
  const isBlocked = !counted || counted.count === 0 || begin.isPending;
  return (
    <FormDialog
      title={t("backfillTitle", { schedule: ref.id })}
      width={500}
      confirm={t("doBackfill", { count: counted?.count ?? 0 })}
      blocked={isBlocked}
      onSubmit={() => begin.mutate()}
      onClose={onClose}
    >
      <p>{t("backfillText")}</p>
      <div className={styles.pair}>
        <InputField label={t("backfillFrom")} type="datetime-local" value={from} onChange={setFrom} />
        <InputField label={t("backfillTo")} type="datetime-local" value={to} onChange={setTo} />
      </div>
      <p className={styles.soft}>{t("backfillToHint", { zone })}</p>
      <SelectField
        label={t("backfillOverlap")}
        options={OVERLAPS}
        text={(each) => c(`overlap.${each}`)}
        value={overlap}
        onChange={(chosen) => setOverlap(OVERLAPS.find((each) => each === chosen) ?? "buffer_all")}
      />
      {begin.error && <ProblemBox problem={begin.error} />}
      {count.error && !counted && !begin.error && <ProblemBox problem={count.error} />}
      <div role="status">
        {counted ? (
          <Counted count={counted.count} times={counted.times} zone={zone} />
        ) : (
          !count.error && <p className={styles.soft}>{t("counting")}</p>
        )}
      </div>
    </FormDialog>
  );
}

function Counted({ count, times, zone }: { count: number; times: readonly string[]; zone: string }) {
  const t = useMessages(messages);
  const language = useLanguage();
  if (count === 0) return <p className={styles.count}>{t("backfillNone")}</p>;
  return (
    <>
      <p className={styles.count}>{t("backfillCount", { count })}</p>
      {times.length > 0 && (
        <p className={styles.soft}>
          {t("backfillFirst")}:{" "}
          {times
            .slice(0, EXAMPLES)
            .map((time) => zonedTime(secondsOf(time), zone, language))
            .join(" · ")}
          {count > EXAMPLES && " …"}
        </p>
      )}
    </>
  );
}
