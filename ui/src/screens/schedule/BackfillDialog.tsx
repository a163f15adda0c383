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
import { Button, Field, Input, Select } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
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
    <Dialog
      open
      onClose={onClose}
      title={t("backfillTitle", { schedule: ref.id })}
      width={500}
      actions={
        <>
          <Button onClick={onClose}>{t("goBack")}</Button>
          <Button kind="primary" disabled={isBlocked} onClick={() => begin.mutate()}>
            {t("doBackfill", { count: counted?.count ?? 0 })}
          </Button>
        </>
      }
    >
      <form
        className={styles.dialog}
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBlocked) begin.mutate();
        }}
      >
        <p>{t("backfillText")}</p>
        <div className={styles.pair}>
          <Field label={t("backfillFrom")}>
            {(wired) => (
              <Input
                {...wired}
                type="datetime-local"
                value={from}
                onChange={(event) => setFrom(event.target.value)}
              />
            )}
          </Field>
          <Field label={t("backfillTo")}>
            {(wired) => (
              <Input
                {...wired}
                type="datetime-local"
                value={to}
                onChange={(event) => setTo(event.target.value)}
              />
            )}
          </Field>
        </div>
        <p className={styles.soft}>{t("backfillToHint", { zone })}</p>
        <Field label={t("backfillOverlap")}>
          {(wired) => (
            <Select
              {...wired}
              value={overlap}
              onChange={(event) =>
                setOverlap(OVERLAPS.find((each) => each === event.target.value) ?? "buffer_all")
              }
            >
              {OVERLAPS.map((each) => (
                <option key={each} value={each}>
                  {c(`overlap.${each}`)}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {begin.error && <ProblemBox problem={begin.error} />}
        {count.error && !counted && !begin.error && <ProblemBox problem={count.error} />}
        <div role="status">
          {counted ? (
            <Counted count={counted.count} times={counted.times} zone={zone} />
          ) : (
            !count.error && <p className={styles.soft}>{t("counting")}</p>
          )}
        </div>
      </form>
    </Dialog>
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
