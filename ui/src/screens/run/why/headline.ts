/** What the explanation says first. The error of a task stands with the task, with its traceback. */
import type { Schemas } from "../../../api/client";
import { failuresOf, type Task, withoutApiCall } from "../run";
import { parkedTexts } from "./parked";

type Finding = Schemas["FindingView"];

const ABOUT_TASKS = new Set(["failed_execution_error", "completed_with_failures"]);

export interface Headline {
  /** Null: the tasks say it. */
  text: string | null;
  /** The tasks that have the error. */
  tasks: string[];
  /** Of the one task, if its record does not have it. */
  error: string | null;
}

/** The error of a run as workers store it (worker/engine/flow_run.py), in English. */
const TASK_FAILED = /^task (.+?): (.+)$/s;

export function headlineOf(findings: readonly Finding[], tasks: readonly Task[]): Headline {
  const [first] = findings;
  const parked = parkedTexts(findings);
  if (!first || parked !== null) return { text: parked, tasks: [], error: null };
  const { code, message, evidence } = first;
  const failed = failuresOf(tasks).map(({ name }) => name);
  if (failed.length === 0) return unrecorded(first, tasks);
  if (ABOUT_TASKS.has(code)) return { text: null, tasks: failed, error: null };
  const { error } = evidence;
  const end = typeof error === "string" ? `: ${error}` : "";
  return end !== "" && message.endsWith(end)
    ? { text: message.slice(0, -end.length), tasks: failed, error: null }
    : { text: message, tasks: [], error: null };
}

/** Only the run has the error: it may name a task. */
function unrecorded({ message, evidence }: Finding, tasks: readonly Task[]): Headline {
  const [, task, error] = TASK_FAILED.exec(String(evidence.error ?? "")) ?? [];
  return task && error && tasks.some(({ name, state }) => name === task && state === "FAILED")
    ? { text: null, tasks: [task], error }
    : { text: withoutApiCall(message), tasks: [], error: null };
}
