/** Sends an answer exactly once: the same answer is sent under the same decision id. */
import { HumanWaitError, type HumanWaitsClient } from "./client.js";
import type { HumanWait, ProposalAnswer, Receipt, RespondBody } from "./types.js";

interface Attempt {
  answer: string;
  decisionId: string;
  /** While the request is pending. */
  sending: Promise<Receipt> | null;
}

export type Respond = (id: string, answer: unknown) => Promise<Receipt>;

/** `find` returns the open questions shown under an id: of a question, or of its run. */
export function answering(client: HumanWaitsClient, find: (id: string) => HumanWait[]): Respond {
  const attempts = new Map<string, Attempt>();

  const send = async (id: string, answer: unknown, decisionId: string): Promise<Receipt> => {
    const shown = find(id);
    if (shown.length > 1) {
      const ids = shown.map(({ wait_id }) => wait_id).join(", ");
      throw new HumanWaitError(
        `the run waits for several answers; respond to one: ${ids}`,
        409,
        "ambiguous_wait",
      );
    }
    // By the id of the question: the run may have reached another question since.
    const wait = shown[0] ?? (id.includes(".") ? await client.get(id) : null);
    if (!wait) return client.resume(id, answer, decisionId);
    return client.respond(wait.wait_id, { ...bodyFor(wait, answer), decision_id: decisionId });
  };

  return (id, answer) => {
    const text = JSON.stringify(answer) ?? "";
    const before = attempts.get(id);
    if (before?.answer === text && before.sending) return before.sending;
    // A failed attempt may have arrived: the same id makes the retry safe.
    const decisionId = before?.answer === text ? before.decisionId : newId();
    const attempt: Attempt = { answer: text, decisionId, sending: null };
    attempt.sending = send(id, answer, decisionId).finally(() => {
      attempt.sending = null;
    });
    attempts.set(id, attempt);
    return attempt.sending;
  };
}

export function bodyFor(wait: HumanWait, answer: unknown): RespondBody {
  if (wait.proposal_digest === null) return { payload: answer };
  const { decision, value, note, digest } = answer as ProposalAnswer;
  return {
    decision,
    digest: digest ?? wait.proposal_digest,
    ...(decision === "edited" && { payload: value }),
    ...(note && { note }),
  };
}

/** `randomUUID` exists only for https and localhost. */
const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
