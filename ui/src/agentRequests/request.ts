/** An agent request: its statuses in the order of the board, priorities, phases and links. */
import { pathTo } from "../app/router";
import type { Language } from "../i18n/language";
import type { AgentRequest } from "./requestApi";

export const STATUSES = ["running", "needs_input", "queued", "failed", "done"] as const;
export type Status = (typeof STATUSES)[number];
export const PRIORITIES = ["P0", "P1", "P2", "P3"] as const;
export const PHASES = ["planning", "implementing", "testing", "documenting", "pushing", "reporting"] as const;

export const requestPath = (id: string): string => pathTo("/requests/:id", { id });

/** Unix seconds of an ISO time; null: there is none, or it is broken. */
export function momentOf(iso: string | null | undefined): number | null {
  const ms = Date.parse(iso ?? "");
  return Number.isNaN(ms) ? null : ms / 1000;
}

/** A reason of the gateway: its code, if it begins with one, and its text. */
export function reasonOf(reason: string): { code: string | null; text: string } {
  const [, code, text] = /^([A-Z][A-Z_]{3,40}): (.*)$/s.exec(reason) ?? [];
  return { code: code ?? null, text: text ?? reason };
}

/** The labels that the agent puts before the parts of a question. */
const LABELS: Record<Language, Readonly<Record<string, string>>> = {
  en: { "Answer: ": "Expected answer: " },
  ja: { "Why: ": "理由: ", "Answer: ": "回答の形式: ", "Choices: ": "選択肢: " },
};

/** A question with its labels in the language of the page; what is asked stays as it is. */
export const questionText = (text: string, language: Language): string =>
  text.replace(/(?<=\n\n)(?:Why|Answer|Choices): /g, (label) => LABELS[language][label] ?? label);

/** The question alone, without its reason and choices: for a line of a list. */
export const questionOnly = (text: string): string => text.split("\n\n")[0] ?? text;

/** A question without the choices that stand below it as buttons. */
export const withoutChoices = (text: string): string => text.replace(/\n\nChoices: .*$/s, "");

/** The address if a browser may open it: a request file can be edited by hand. */
export const webAddress = (url: string | null | undefined): string | null =>
  url && /^https?:\/\/[^\s]+$/i.test(url) ? url : null;

export type Action = "run" | "dequeue" | "stop" | "rerun";
const ACTIONS: Partial<Record<Status, Action>> = {
  queued: "run",
  running: "stop",
  failed: "rerun",
  done: "rerun",
};

/** What may be done with a request, by its status; null: nothing, or it has to be answered. */
export const actionOf = ({ status, enqueued_at }: AgentRequest): Action | null =>
  status === "queued" && enqueued_at !== null ? "dequeue" : (ACTIONS[status] ?? null);

/** Whether it may be deleted: not while it has a run. */
export const isDeletable = ({ status }: AgentRequest): boolean =>
  status !== "running" && status !== "needs_input";

export interface Group {
  status: Status;
  items: readonly AgentRequest[];
}

/** By status in the order of the board, then P0 to P3, then the newest. */
export function groups(items: readonly AgentRequest[]): readonly Group[] {
  return STATUSES.map((status) => ({
    status,
    items: items.filter((each) => each.status === status).sort(inOrder),
  })).filter((group) => group.items.length > 0);
}

const inOrder = (a: AgentRequest, b: AgentRequest): number =>
  a.priority.localeCompare(b.priority) || (momentOf(b.updated_at) ?? 0) - (momentOf(a.updated_at) ?? 0);
