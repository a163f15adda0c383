/** A question in full, and what its form needs. */

import type { Actor, Receipt, Respond } from "pyoco-server-react";
import type { Schemas } from "../../api/client";
import type { Schema } from "../../schemaForm/json";
import type { Refusal } from "./useAnswering";

/** Unlike a wait for a signal or an event, a question always has a deadline. */
export type Wait = Schemas["WaitView"] & { deadline_at: number };

export interface Answerable {
  respond: Respond;
  onAnswered: (receipt: Receipt) => void;
  onRefused: (refusal: Refusal) => void;
}

export const schemaOf = ({ schema }: Wait): Schema | null => schema as Schema | null;

/** The best known name of a person. */
export const nameOf = (actor: Actor | null): string | null =>
  actor?.name ?? actor?.api_key_id ?? actor?.ip ?? null;
