/** The endpoints of agent requests. */
import { send } from "../api/client";

const BASE = `${location.origin}/api/v1`;

export interface AgentRequest {
  id: string;
  title: string;
  priority: string;
  status: string;
  base: string;
  branch: string;
  tags: string[];
  created_at: string;
  updated_at: string;
  run_id: string | null;
  phase: string | null;
  attempt: number | null;
  blocked_reason: string | null;
  failure_reason: string | null;
  pr_url: string | null;
  last_commit: string | null;
  paths: { request_file: string; run_dir: string | null };
  enqueued_at: string | null;
  stopping: boolean;
  question: { wait_id: string; text: string; choices: string[]; deadline_at: string | null } | null;
  pyoco_run_id: string | null;
  problems: string[];
}

export interface RequestDetail {
  request: AgentRequest;
  content: {
    raw_md: string;
    sections: { want: string | null; plan: string | null; report: string | null };
  };
}

export interface AgentRun {
  id: string;
  request_id: string;
  status: string;
  phase: string | null;
  started_at: string | null;
  ended_at: string | null;
  summary: string | null;
  artifacts: Record<string, string>;
  files: string[];
  step: string | null;
  steps: RunStep[];
  pyoco_run_id: string | null;
}

export interface RunStep {
  id: string;
  title: string;
  state: string;
  commit: string | null;
  tests: string | null;
  summary: string | null;
}

export interface Check {
  name: string;
  ok: boolean;
  version?: string | null;
  details?: string | null;
  fix?: string | null;
}

async function call<T>(path: string, init: RequestInit = {}): Promise<{ data: T }> {
  const answer = await send(new Request(`${BASE}${path}`, init));
  return { data: (answer.status === 204 ? null : await answer.json()) as T };
}

const sent = (method: string, body: unknown = {}): RequestInit => ({
  method,
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

const at = (id: string, rest = "") => `/requests/${encodeURIComponent(id)}${rest}`;
type Changed = { request: AgentRequest };

export const readRequests = (signal: AbortSignal) => call<{ items: AgentRequest[] }>("/requests", { signal });

export const readRequest = (id: string, signal: AbortSignal) => call<RequestDetail>(at(id), { signal });

export const createRequest = (body: object) => call<Changed>("/requests", sent("POST", body));

export const changeRequest = (id: string, body: object) => call<Changed>(at(id), sent("PATCH", body));

export const act = (id: string, action: "enqueue" | "stop" | "rerun") =>
  call<Changed>(at(id, `/${action}`), sent("POST"));

export const resume = (id: string, text: string) =>
  call<Changed>(at(id, "/resume"), sent("POST", { answer: { text } }));

export const deleteRequest = (id: string) => call<null>(at(id), { method: "DELETE" });

export const readRuns = (id: string, signal: AbortSignal) =>
  call<{ items: AgentRun[] }>(at(id, "/runs"), { signal });

export const examine = () => call<{ checks: Check[] }>("/doctor", sent("POST"));
