/** The form of a new schedule, or of one that is edited. */

import { useState } from "react";
import { useRead } from "../../api/queries";
import { href, usePlace } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useMessages } from "../../i18n/messages";
import { messages as common } from "../../schedules/messages";
import { OVERLAPS, type Schedule } from "../../schedules/schedule";
import { previewSchedule, readSchedule } from "../../schedules/scheduleApi";
import { refOf, scheduleHref } from "../../schedules/scheduleRef";
import { useSettled } from "../../schedules/useSettled";
import { Form } from "../../ui/Form";
import { ProblemBox } from "../../ui/feedback";
import { SelectField } from "../../ui/fields";
import { Card, Page } from "../../ui/Page";
import { LoadingPage } from "../../ui/pageStates";
import { SaveBar, StaleNote } from "../../ui/saving";
import { specOf } from "./draft";
import { CheckField, FormState, TextField, useForm } from "./fields";
import { startDraft } from "./keptDraft";
import { messages } from "./messages";
import { Preview } from "./Preview";
import styles from "./ScheduleForm.module.css";
import { SpecFields } from "./SpecFields";
import { placed, useScheduleForm } from "./useScheduleForm";
import { WhatFields } from "./WhatFields";

const PREVIEWED = 8;

export default function Screen({ params }: ScreenProps) {
  const { query } = usePlace();
  const tenant = query.get("tenant");
  return params.id === undefined ? (
    <NewSchedule flow={query.get("flow")} />
  ) : (
    <Edit key={`${tenant} ${params.id}`} id={params.id} tenant={tenant} />
  );
}

/** A link may name the flow. */
function NewSchedule({ flow }: { flow: string | null }) {
  useState(() => flow && startDraft(flow));
  return <ScheduleForm stored={null} />;
}

function Edit({ id, tenant }: { id: string; tenant: string | null }) {
  const t = useMessages(messages);
  const { data, error, refetch } = useRead(["schedule", "edit", id, tenant], (signal) =>
    readSchedule({ id, tenant }, signal),
  );
  if (data) return <ScheduleForm stored={data} />;
  return <LoadingPage title={t("editTitle", { schedule: id })} problem={error} onRetry={refetch} />;
}

function ScheduleForm({ stored }: { stored: Schedule | null }) {
  const t = useMessages(messages);
  const form = useScheduleForm(stored);
  const { draft, change, problem, submit } = form;
  const preview = usePreview(JSON.stringify(specOf(draft)));
  const told = placed(preview.problem);
  const wrong = { ...told.fields, ...form.wrong };
  return (
    <Page title={stored ? t("editTitle", { schedule: stored.schedule_id }) : t("title")}>
      <FormState draft={draft} change={change} wrong={wrong}>
        <Form className={styles.form} refusal={form.refused} onSubmit={submit}>
          <div className={styles.inputs}>
            <Card title={t("what")}>
              <div className={styles.fields}>
                <WhatFields
                  isNew={stored === null}
                  paramMarks={form.paramMarks}
                  yamlMarks={form.yamlMarks}
                  onSubmit={submit}
                />
              </div>
            </Card>
            <Card title={t("when")}>
              <div className={styles.fields}>
                <SpecFields />
              </div>
            </Card>
            <Card title={t("rules")}>
              <div className={styles.fields}>
                <Rules isNew={stored === null} />
              </div>
            </Card>
            {form.isStale && (
              <StaleNote
                title={t("staleTitle")}
                text={t("staleText")}
                load={t("staleReload")}
                disabled={form.reload.isPending}
                onLoad={() => form.reload.mutate()}
              />
            )}
            {form.both && <Taken both={form.both} />}
            {problem && <ProblemBox problem={problem} />}
            <SaveBar
              isNew={stored === null}
              isPending={form.isPending}
              back={stored ? scheduleHref(refOf(stored)) : href("/schedules")}
              onDiscard={form.discard}
            />
          </div>
          <Preview
            draft={draft}
            times={preview.times}
            searchedUntil={preview.searchedUntil}
            problem={preview.problem}
            isPlaced={!told.hasRest && Object.keys(told.fields).length > 0}
          />
        </Form>
      </FormState>
    </Page>
  );
}

/** The next times, a moment after the last keystroke. */
function usePreview(spec: string) {
  const settled = useSettled(spec);
  const { data, error } = useRead(
    ["schedule", "preview", settled],
    (signal) => previewSchedule(`{"spec":${settled},"n":${PREVIEWED}}`, signal),
    { keep: true },
  );
  return { times: data?.times, searchedUntil: data?.searched_until ?? null, problem: error };
}

function Rules({ isNew }: { isNew: boolean }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const { draft, change, wrong } = useForm();
  return (
    <>
      <div className={styles.row}>
        <SelectField
          label={t("overlap")}
          hint={t("overlapHint")}
          error={wrong.overlap}
          options={OVERLAPS}
          text={(each) => c(`overlap.${each}`)}
          value={draft.overlap}
          onChange={(chosen) => change({ overlap: OVERLAPS.find((each) => each === chosen) ?? "skip" })}
        />
        <TextField name="catchupSec" inputMode="decimal" label={t("catchup")} hint={t("catchupHint")} />
        <TextField
          name="remainingRuns"
          inputMode="numeric"
          label={t("remaining")}
          hint={t("remainingHint")}
        />
      </div>
      <CheckField name="pauseOnFailure" label={t("pauseOnFailure")} />
      {isNew && <CheckField name="paused" label={t("createPaused")} />}
    </>
  );
}

/** After the changes of somebody else were taken over. */
function Taken({ both }: { both: readonly string[] }) {
  const t = useMessages(messages);
  return (
    <p className={styles.taken} role="status">
      {both.length > 0 ? t("takenBoth", { count: both.length }) : t("taken")}
    </p>
  );
}
