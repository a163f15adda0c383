/** When to run. */
import { useState } from "react";
import { useMessages } from "../../i18n/messages";
import { Field, Input, Segments, Select } from "../../ui/controls";
import { SuggestionList } from "../../ui/SuggestionList";
import { type TimeUnit, UNITS } from "../submit/submission";
import { LinesField, TextField, useForm } from "./fields";
import { messages } from "./messages";
import styles from "./ScheduleForm.module.css";

const TIMINGS = ["cron", "every", "at"] as const;
type Timing = (typeof TIMINGS)[number];
const EXAMPLE = "2026-12-24T18:00";
const ZONES = Intl.supportedValuesOf("timeZone");

export function SpecFields() {
  const t = useMessages(messages);
  const { draft } = useForm();
  const filled = TIMINGS.filter((each) => draft[each].trim() !== "");
  const [chosen, setChosen] = useState<Timing>(filled[0] ?? "cron");
  // What is filled in counts, so it is shown.
  const isShown = (timing: Timing) => timing === chosen || filled.includes(timing);
  return (
    <>
      <Segments
        label={t("timing")}
        value={chosen}
        options={TIMINGS.map((value) => ({ value, label: t(`timing.${value}`) }))}
        onChange={setChosen}
      />
      {TIMINGS.filter(isShown).length > 1 && <p className={styles.soft}>{t("timingSeveral")}</p>}
      {isShown("cron") && <LinesField name="cron" label={t("cron")} hint={t("cronHint")} />}
      {isShown("every") && (
        <div className={styles.row}>
          <Every />
          <TextField name="anchor" type="datetime-local" label={t("anchor")} hint={t("anchorHint")} />
        </div>
      )}
      {isShown("at") && <LinesField name="at" label={t("at")} hint={t("atHint")} placeholder={EXAMPLE} />}
      <div className={styles.row}>
        <TextField name="timezone" label={t("zone")} hint={t("zoneHint")} list="known-zones" />
        <SuggestionList id="known-zones" values={["UTC", ...ZONES]} />
        <TextField name="startAt" type="datetime-local" label={t("startAt")} hint={t("startAtHint")} />
        <TextField name="endAt" type="datetime-local" label={t("endAt")} hint={t("endAtHint")} />
      </div>
      <div className={styles.row}>
        <LinesField name="exclude" label={t("exclude")} hint={t("excludeHint")} />
        <TextField name="jitterSec" inputMode="decimal" label={t("jitter")} hint={t("jitterHint")} />
      </div>
    </>
  );
}

function Every() {
  const t = useMessages(messages);
  const { draft, change, wrong } = useForm();
  return (
    <Field label={t("every")} hint={t("everyHint")} error={wrong.every}>
      {(wired) => (
        <span className={styles.every}>
          <Input
            {...wired}
            inputMode="decimal"
            autoComplete="off"
            value={draft.every}
            onChange={(event) => change({ every: event.target.value })}
          />
          <Select
            aria-label={t("everyUnit")}
            value={draft.everyUnit}
            onChange={(event) => change({ everyUnit: event.target.value as TimeUnit })}
          >
            {(Object.keys(UNITS) as TimeUnit[]).map((unit) => (
              <option key={unit} value={unit}>
                {t(`unit.${unit}`)}
              </option>
            ))}
          </Select>
        </span>
      )}
    </Field>
  );
}
