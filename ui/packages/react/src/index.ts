/** Questions to people in your own page. This folder needs only React: copy it. */
export type { Respond } from "./answering";
export { HumanWaitError, type HumanWaitsClient, type HumanWaitsOptions, humanWaitsClient } from "./client";
export type { InboxState } from "./following";
export type {
  Actor,
  Decision,
  HumanWait,
  HumanWaitDetails,
  ProposalAnswer,
  Receipt,
  WaitingRun,
  WaitState,
} from "./types";
export { type HumanWaits, type UseHumanWaitsOptions, useHumanWaits } from "./useHumanWaits";
