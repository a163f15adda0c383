/** The filters of open questions in the URL. */

import type { HumanWait } from "pyoco-server-react";
import type { QueryPatch } from "../../app/router";
import { folded } from "../../lib/folding";

/** The views of questions that are not open, by the states that they show. */
export const CLOSED_STATES = {
  answered: ["answered"],
  unanswered: ["expired", "withdrawn", "cancelled"],
} as const;
export type ClosedView = keyof typeof CLOSED_STATES;
export const VIEWS = ["open", "answered", "unanswered"] as const;

export function viewOf(query: URLSearchParams): "open" | ClosedView {
  const given = query.get("view");
  return VIEWS.find((each) => each === given) ?? "open";
}

export const DUE = { "1h": 3_600, "24h": 86_400 } as const;
export type Due = keyof typeof DUE;

export const NO_FILTERS: QueryPatch = { q: null, flow: null, assignee: null, due: null };

export function dueOf(query: URLSearchParams): Due | null {
  const due = query.get("due");
  return due !== null && due in DUE ? (due as Due) : null;
}

export const isFiltered = (query: URLSearchParams): boolean =>
  Object.keys(NO_FILTERS).some((name) => query.get(name));

export function matching(waits: readonly HumanWait[], query: URLSearchParams, now: number): HumanWait[] {
  const words = folded(query.get("q") ?? "")
    .split(/\s+/)
    .filter(Boolean);
  const flow = query.get("flow");
  const assignee = query.get("assignee");
  const due = dueOf(query);
  return waits.filter((wait) => {
    if (flow && wait.flow_name !== flow) return false;
    if (assignee && !wait.assignees.includes(assignee)) return false;
    if (due && wait.deadline_at > now + DUE[due]) return false;
    const text = textOf(wait);
    return words.every((word) => text.includes(word));
  });
}

const textOf = ({ message, flow_name, task, name, tag, run_id, assignees }: HumanWait): string =>
  folded([message, flow_name, task, name, tag, run_id, ...assignees].join("\n"));

/** The options, including the selected one. */
export const choices = (given: readonly string[], chosen: string | null): string[] =>
  [...new Set(chosen ? [...given, chosen] : given)].sort((a, b) => a.localeCompare(b));
