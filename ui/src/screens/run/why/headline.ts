/** What the explanation says first. The error of a task stands with the task, with its traceback. */
import type { Schemas } from "../../../api/client";
import { failuresOf, type Task, withoutApiCall } from "../run";

type Finding = Schemas["FindingView"];

const ABOUT_TASKS = new Set(["failed_execution_error", "completed_with_failures"]);

export interface Headline {
  /** Null: the tasks say it. */
  text: string | null;
  /** The tasks that have the error. */
  tasks: string[];
}

export function headlineOf({ code, message, evidence }: Finding, tasks: readonly Task[]): Headline {
  const failed = failuresOf(tasks).map(({ name }) => name);
  if (failed.length === 0) return { text: withoutApiCall(message), tasks: [] };
  if (ABOUT_TASKS.has(code)) return { text: null, tasks: failed };
  const { error } = evidence;
  const end = typeof error === "string" ? `: ${error}` : "";
  return end !== "" && message.endsWith(end)
    ? { text: message.slice(0, -end.length), tasks: failed }
    : { text: message, tasks: [] };
}
