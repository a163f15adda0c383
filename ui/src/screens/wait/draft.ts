/** The draft of an answer, kept per question for the tab. It is removed when the question is closed or the
 * key changes.
 */

import type { Decision } from "pyoco-server-react";
import { useMemo, useState } from "react";
import { ANSWERS, apiKey } from "../../api/apiKey";
import { storedValue, useStore } from "../../lib/store";
import { isObject, type Json } from "../../schemaForm/json";
import type { TypedTexts } from "../../schemaForm/typedText";
import type { Wait } from "./wait";

export interface Draft {
  /** Of its proposal: a changed proposal invalidates the draft. */
  digest: string | null;
  value?: Json;
  /** The mode of input; default: the first. */
  mode?: string;
  decision?: Decision;
  note?: string;
  /** Typed text of fields, which may be invalid. */
  texts: Record<string, string>;
}
type Drafts = Record<string, Draft>;

/** Limits the drafts in the browser's storage. */
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

/** The draft of a question with its initial value, and a function that changes parts of it. */
export function useDraft(wait: Pick<Wait, "wait_id" | "proposal_digest">, begin: () => Json | undefined) {
  const { wait_id: id, proposal_digest: digest } = wait;
  useStore(drafts);
  const [blank] = useState<Draft>(() => ({ digest, value: begin(), texts: {} }));
  return useMemo(() => {
    // Read again each time: several parts may change at once.
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
