/** An answer that is being written, kept for the tab and by its question: who looks elsewhere, or reloads the page,
 * finds it again. It goes when the question is closed, and with the key that it was written with.
 */
import { useMemo, useState } from "react";
import { ANSWERS, apiKey } from "../../api/apiKey";
import type { Decision } from "../../human-waits";
import { storedValue, useStore } from "../../lib/store";
import { isObject, type Json } from "../../schemaForm/json";
import type { TypedTexts } from "../../schemaForm/typed";
import type { Wait } from "./wait";

export interface Draft {
  /** Of the proposal it is about: another one is another matter. */
  digest: string | null;
  value?: Json;
  /** How the answer is written, as long as nobody chose: the first way. */
  mode?: string;
  decision?: Decision;
  note?: string;
  /** What was typed into fields, which may be no value yet. */
  texts: Record<string, string>;
}
type Drafts = Record<string, Draft>;

/** Questions that were begun and never finished must not fill the browser's storage. */
const MOST = 50;

const isDrafts = (kept: unknown): kept is Drafts =>
  isObject(kept) && Object.values(kept).every((each) => isObject(each) && isObject(each.texts));
export const drafts = storedValue<Drafts>(() => sessionStorage, ANSWERS, {}, isDrafts);
apiKey.subscribe(() => drafts.set({}));

export function forgetDraft(waitId: string): void {
  if (!(waitId in drafts.get())) return;
  const { [waitId]: _, ...rest } = drafts.get();
  drafts.set(rest);
}

function keep(waitId: string, draft: Draft): void {
  const { [waitId]: _, ...others } = drafts.get();
  drafts.set(Object.fromEntries([...Object.entries(others).slice(1 - MOST), [waitId, draft]]));
}

/** The draft of a question, which begins with a value, and a way to change parts of it. */
export function useDraft(wait: Pick<Wait, "wait_id" | "proposal_digest">, begin: () => Json | undefined) {
  const { wait_id: id, proposal_digest: digest } = wait;
  useStore(drafts);
  const [blank] = useState<Draft>(() => ({ digest, value: begin(), texts: {} }));
  return useMemo(() => {
    // Read anew each time: several parts may change at once.
    const now = () => {
      const kept = drafts.get()[id];
      return kept?.digest === digest ? kept : blank;
    };
    const change = (patch: Partial<Draft>) => keep(id, { ...now(), ...patch });
    const texts: TypedTexts = {
      get: (place) => now().texts[place],
      set: (place, text) => change({ texts: { ...now().texts, [place]: text } }),
    };
    return { now, change, texts };
  }, [id, digest, blank]);
}
