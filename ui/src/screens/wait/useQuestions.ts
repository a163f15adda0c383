/** The hook for questions, with the gateway and the key of this tab. */

import { type HumanWait, type HumanWaits, useHumanWaits } from "pyoco-server-react";
import { send } from "../../api/client";
import { recordStreamChunks, useSource } from "../../api/connection";

export type { HumanWait };

export interface Inbox extends HumanWaits {
  waits: HumanWait[];
}

export function useQuestions(): Inbox {
  const touch = useSource(true);
  const fetch = async (request: Request) => {
    const answer = await send(request);
    touch();
    return recordStreamChunks(answer, touch);
  };
  const inbox = useHumanWaits({ api: "", fetch });
  const waits = inbox.runs.flatMap((run) => run.waits).sort((a, b) => a.deadline_at - b.deadline_at);
  return { ...inbox, waits };
}

/** The open question after this one, by deadline; after the last one, the first. */
export function nextOf(waits: readonly HumanWait[], id: string): HumanWait | null {
  const place = waits.findIndex(({ wait_id }) => wait_id === id);
  const next = waits[place + 1] ?? waits[0];
  return next && next.wait_id !== id ? next : null;
}

/** Whether a question is open; null while unknown. */
export function isOpenIn({ state, waits }: Inbox, id: string): boolean | null {
  const isKnown = state === "live" || state === "polling";
  return isKnown ? waits.some(({ wait_id }) => wait_id === id) : null;
}
