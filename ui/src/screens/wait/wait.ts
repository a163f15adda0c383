/** A question with all of it, and what its form needs. */
import type { Schemas } from "../../api/client";
import type { Actor, Receipt, Respond } from "../../human-waits";
import type { Schema } from "../../schemaForm/json";
import type { Refusal } from "./useAnswering";

export type Wait = Schemas["WaitView"];

export interface Answerable {
  respond: Respond;
  onAnswered: (receipt: Receipt) => void;
  onRefused: (refusal: Refusal) => void;
}

export const schemaOf = ({ schema }: Wait): Schema | null => schema as Schema | null;

/** Whoever it was, by the best name that is known. */
export const nameOf = (actor: Actor | null): string | null =>
  actor?.name ?? actor?.api_key_id ?? actor?.ip ?? null;
