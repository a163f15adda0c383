/** When the run starts: now, at a time, or after a delay. */

import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { viewerZone } from "../../schedules/zones";
import { Field, Input, Segments, Select } from "../../ui/controls";
import { InputField } from "../../ui/fields";
import { change, draft } from "./draft";
import { messages } from "./messages";
import styles from "./Submit.module.css";
import { type FieldName, STARTS, type TimeUnit, UNITS } from "./submission";

export function StartField({ errors }: { errors: Partial<Record<FieldName, string>> }) {
  const t = useMessages(messages);
  const { start, startAt, startIn, startUnit } = useStore(draft);
  const chosen = STARTS.find((each) => each === start) ?? "now";
  return (
    <div className={styles.start}>
      <span className={styles.label} aria-hidden>
        {t("start")}
      </span>
      <Segments
        label={t("start")}
        value={chosen}
        options={STARTS.map((value) => ({ value, label: t(`start.${value}`) }))}
        onChange={(value) => change({ start: value })}
      />
      {chosen === "at" && (
        <InputField
          label={t("startAt")}
          hint={t("startAtHint", { zone: viewerZone })}
          error={errors.start_at}
          type="datetime-local"
          value={startAt}
          onChange={(value) => change({ startAt: value })}
        />
      )}
      {chosen === "in" && (
        <Field label={t("startIn")} hint={t("startInHint")} error={errors.delay_sec}>
          {(wired) => (
            <span className={styles.delay}>
              <Input
                {...wired}
                inputMode="decimal"
                autoComplete="off"
                value={startIn}
                onChange={(event) => change({ startIn: event.target.value })}
              />
              <Select
                aria-label={t("startUnit")}
                value={startUnit}
                onChange={(event) => change({ startUnit: event.target.value })}
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
      )}
    </div>
  );
}
