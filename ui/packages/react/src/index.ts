/** Questions to people in your own page. */
export type { Respond } from "./answering.js";
export {
  type FieldError,
  HumanWaitError,
  type HumanWaitsClient,
  type HumanWaitsOptions,
  humanWaitsClient,
} from "./client.js";
export type { InboxState } from "./following.js";
export type {
  Actor,
  Decision,
  HumanWait,
  HumanWaitDetails,
  ProposalAnswer,
  Receipt,
  RespondBody,
  WaitingRun,
  WaitState,
} from "./types.js";
export { type HumanWaits, type UseHumanWaitsOptions, useHumanWaits } from "./useHumanWaits.js";
