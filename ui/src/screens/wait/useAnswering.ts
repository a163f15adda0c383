/** Sends an answer, and handles its rejection. */

import type { Receipt, Respond } from "pyoco-server-react";
import { useState } from "react";
import { Problem } from "../../api/problem";
import { NO_PROBLEMS, type Problems } from "../../schemaForm/validation";
import { useIsArmed } from "../../ui/arming";

/** Why an answer was rejected although it was valid. */
export type Refusal = "conflict" | "expired" | "changed";

const REFUSALS: Record<number, Refusal> = { 409: "conflict", 410: "expired", 412: "changed" };

interface Options {
  waitId: string;
  respond: Respond;
  onAnswered: (receipt: Receipt) => void;
  onRefused: (refusal: Refusal) => void;
}

export function useAnswering({ waitId, respond, onAnswered, onRefused }: Options) {
  const isArmed = useIsArmed();
  const [sending, setSending] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [problems, setProblems] = useState<Problems>(NO_PROBLEMS);

  /** Send `answer`, unless `check` finds a problem. */
  const send = async (answer: unknown, check: () => Promise<Problems>) => {
    if (sending || !isArmed) return;
    setSending(true);
    setProblem(null);
    try {
      const wrong = await check();
      setProblems(wrong);
      if (wrong.size > 0) return;
      onAnswered(await respond(waitId, answer));
    } catch (thrown) {
      const what = Problem.from(thrown);
      const refusal = REFUSALS[what.status];
      if (refusal) onRefused(refusal);
      else if (what.status === 422 && what.fields.length > 0) setProblems(errorsByField(what));
      else setProblem(what);
    } finally {
      setSending(false);
    }
  };
  return { send, sending, problem, problems };
}

/** The gateway reports paths of the whole request: `payload.amount`. */
export function errorsByField({ fields }: Problem): Problems {
  return new Map(fields.map(({ field, message }) => [field.replace(/^payload(\.|$)/, ""), message]));
}
