/** One form: its draft, its request, and what is wrong with it. */

import { useMemo, useRef, useState } from "react";
import { Attempt } from "../../api/idempotencyKey";
import type { FieldProblem, Problem } from "../../api/problem";
import { useAct } from "../../api/queries";
import { navigate } from "../../app/router";
import type { Mark } from "../../editor/CodeEditor";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { REFRESH } from "../../schedules/actions";
import type { Schedule } from "../../schedules/schedule";
import { changeSchedule, createSchedule, readSchedule } from "../../schedules/scheduleApi";
import { refOf, scheduleHref } from "../../schedules/scheduleRef";
import { useSaving } from "../../ui/saving";
import { showToast } from "../../ui/toasts";
import { parseParams } from "../submit/submission";
import { changeJson, createJson, type Draft, draftOf, EMPTY, inputOf, merged } from "./draft";
import { type Kept, kept } from "./keptDraft";
import { messages } from "./messages";

export type Wrong = Partial<Record<keyof Draft, string>>;

export function useScheduleForm(stored: Schedule | null) {
  const t = useMessages(messages);
  const target = stored ? `${stored.tenant_id ?? ""} ${stored.schedule_id}` : "";
  const [initial] = useState<Kept>(() => {
    const base = stored ? draftOf(stored) : EMPTY;
    return { target, draft: base, base, revision: stored?.revision ?? 0 };
  });
  const found = useStore(kept);
  const now = found?.target === target ? found : initial;
  const { draft, base, revision } = now;
  const [both, setBoth] = useState<(keyof Draft)[] | null>(null);
  const change = (patch: Partial<Draft>) => {
    const before = kept.get();
    const from = before?.target === target ? before : now;
    kept.set({ ...from, draft: { ...from.draft, ...patch } });
  };
  const attempt = useRef(new Attempt());
  const save = useAct(
    () => {
      setBoth(null);
      if (stored) return changeSchedule(refOf(stored), changeJson(draft, base, revision));
      const json = createJson(draft);
      return createSchedule(json, attempt.current.keyFor(json));
    },
    {
      quiet: true,
      refresh: REFRESH,
      onDone: (saved) => {
        kept.set(null);
        showToast({ tone: "good", title: t("saved", { schedule: saved.schedule_id }) });
        navigate(scheduleHref(refOf(saved)));
      },
    },
  );
  const reload = useAct(() => readSchedule(refOf(stored as Schedule)), {
    onDone: (current) => {
      const theirs = draftOf(current);
      const result = merged(draft, base, theirs);
      kept.set({ target, draft: result.draft, base: theirs, revision: current.revision });
      saving.clearProblem();
      setBoth(result.both);
    },
  });
  const own = useOwnFindings(draft);
  const saving = useSaving(save, draft, own.fields);
  const { tried, problem } = saving;
  // A conflict is a change of somebody else or, for a new schedule, an id that is taken.
  const isConflict = problem?.status === 409;
  const isStale = stored !== null && isConflict;
  const isTaken = stored === null && isConflict;
  const told = useMemo(() => placed(problem), [problem]);
  const hasPlace = problem !== null && problem.fields.length > 0 && !told.hasRest;
  return {
    ...saving,
    draft,
    change,
    wrong: {
      ...told.fields,
      ...(isTaken && { id: problem.detail }),
      ...(tried ? own.fields : {}),
    } as Wrong,
    paramMarks: tried ? own.marks : NO_MARKS,
    yamlMarks: told.marks,
    problem: hasPlace || isConflict ? null : problem,
    isStale,
    /** What both have changed; null unless somebody else's changes were just taken over. */
    both,
    reload,
    isChanged: now !== initial,
    discard: () => kept.set(null),
  };
}

const NO_MARKS: readonly Mark[] = [];

/** Of several lines, the message names the one that is wrong. */
const messageOf = ({ field, value, message }: FieldProblem): string =>
  value && /\[\d+\]$/.test(field) ? `${value}: ${message}` : message;

/** Each error of the gateway where it belongs. */
export function placed(problem: Problem | null) {
  const fields: Wrong = {};
  const marks: Mark[] = [];
  let hasRest = false;
  for (const each of problem?.fields ?? []) {
    const input = inputOf(each.field);
    if (input === "yaml" && each.line)
      marks.push({ line: each.line, column: each.column ?? 1, message: each.message });
    else if (input) fields[input] = fields[input] ? `${fields[input]}\n${messageOf(each)}` : messageOf(each);
    else hasRest = true;
  }
  return { fields, marks, hasRest };
}

/** Validation without the gateway. */
function useOwnFindings(draft: Draft) {
  const t = useMessages(messages);
  const { id, flowName, kind, params, timeoutSec, catchupSec, remainingRuns } = draft;
  return useMemo(() => {
    const fields: Wrong = {};
    const parsed = kind === "flow" ? parseParams(params) : { json: "{}" };
    if (id.trim() === "") fields.id = t("requiredId");
    if (flowName.trim() === "") fields.flowName = t("required");
    if (!isNumber(timeoutSec)) fields.timeoutSec = t("badNumber");
    if (!isNumber(catchupSec)) fields.catchupSec = t("badNumber");
    if (!/^\d*$/.test(remainingRuns.trim())) fields.remainingRuns = t("badWhole");
    if (!("place" in parsed)) return { fields, marks: NO_MARKS };
    const { place } = parsed;
    const message = place ? t("badJson", { line: place.line, column: place.column }) : t("badObject");
    fields.params = message;
    return { fields, marks: place ? [{ ...place, message }] : NO_MARKS };
  }, [t, id, flowName, kind, params, timeoutSec, catchupSec, remainingRuns]);
}

/** Empty, or a number that is not negative. The gateway knows the limits. */
const isNumber = (typed: string): boolean => typed.trim() === "" || Number(typed) >= 0;
