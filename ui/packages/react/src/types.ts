/** Types of questions and answers. */

export type WaitState = "open" | "answered" | "expired" | "cancelled" | "withdrawn";
export type Decision = "approved" | "edited" | "rejected";

/** Who did something, as far as the gateway knows. */
export interface Actor {
  tenant_id?: string | null;
  api_key_id?: string | null;
  name?: string | null;
  ip?: string | null;
  user_agent?: string | null;
}

/** One question. Moments are unix seconds. */
export interface HumanWait {
  wait_id: string;
  run_id: string;
  flow_name: string;
  tag: string;
  task: string;
  node: string;
  name: string;
  message: string;
  state: WaitState;
  created_at: number;
  deadline_at: number;
  arming: number;
  tenant_id: string | null;
  /** Names or ids of API keys, or `group:<name>`; empty: anyone. */
  assignees: string[];
  /** Null without a proposal. */
  proposal_digest: string | null;
  /** How many approvals it needs, and has. */
  required?: number;
  approvals?: number;
  decided_at: number | null;
  decided_by: Actor | null;
  decision: Decision | null;
}

/** One question in full: schema, proposal and result. */
export interface HumanWaitDetails extends HumanWait {
  /** A JSON Schema; null: any JSON is an answer. */
  schema: Record<string, unknown> | boolean | null;
  proposal?: unknown;
  default?: unknown;
  payload?: unknown;
  note: string | null;
  decision_id: string | null;
}

/** A waiting run: its first question, and all of them. */
export interface WaitingRun {
  id: string;
  /** The same as `id`, under the name that the HTTP API has for it. */
  run_id: string;
  status: "waiting_human";
  flow_name: string;
  wait_message: string;
  wait_deadline_at: number;
  waits: HumanWait[];
}

/** The answer to a proposal. */
export interface ProposalAnswer {
  decision: Decision;
  /** Replaces the proposal, if it is edited. */
  value?: unknown;
  note?: string;
  /** Of the proposal that was shown; default: of the one in `runs`. */
  digest?: string;
}

/** The body of `POST /waits/{wait_id}/respond`. */
export interface RespondBody {
  payload?: unknown;
  decision?: Decision;
  digest?: string;
  note?: string;
  decision_id?: string;
}

export interface Receipt {
  run_id: string;
  success: true;
  wait_id?: string;
  decided_at?: number;
  decision?: Decision | null;
  /** `open` while more approvals are required. */
  state?: WaitState;
  required?: number;
  approvals?: number;
  /** Whether the same answer was given before. */
  repeated?: boolean;
}
