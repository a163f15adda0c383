/** What is typed into the form of a hook, and the request that it makes. */

import { looseText, looseValue, pairText, parsePairs } from "../../lib/pairLines";
import { bindingDraft, bindingFields, EMPTY_BINDING, objectText } from "../../triggers/flowBinding";
import type { Hook } from "../../triggers/hookApi";
import type { Draft } from "../../ui/draftForm";

/** Where the proof of a delivery is: only some kinds have these. */
const SIGNATURE = ["header", "algorithm", "encoding", "prefix", "timestamp_header", "signed_text"] as const;

export const EMPTY: Draft = {
  hook_id: "",
  kind: "token",
  secret: "",
  header: "",
  algorithm: "sha256",
  encoding: "hex",
  prefix: "",
  timestamp_header: "",
  signed_text: "",
  ...EMPTY_BINDING,
  map: "",
  idempotency: "",
  only_if: "",
  overlap: "allow",
  note: "",
};

export function draftOf(hook: Hook): Draft {
  return {
    ...EMPTY,
    hook_id: hook.hook_id,
    kind: hook.kind,
    ...Object.fromEntries(SIGNATURE.map((name) => [name, hook.signature[name]])),
    ...bindingDraft(hook),
    map: hook.map === null ? "" : pairText(hook.map),
    idempotency: hook.idempotency ?? "",
    only_if: pairText(
      Object.fromEntries(Object.entries(hook.only_if).map(([name, value]) => [name, looseText(value)])),
    ),
    overlap: hook.overlap,
    note: hook.note,
  };
}

const pairsOf = (draft: Draft, name: string) => {
  const parsed = parsePairs(draft[name] ?? "");
  return "pairs" in parsed ? parsed.pairs : {};
};

/** The line of a field with pairs that is none. */
export function wrongPair(draft: Draft, name: "map" | "only_if"): string | null {
  const parsed = parsePairs(draft[name] ?? "");
  return "wrong" in parsed ? parsed.wrong : null;
}

/** Of the kinds that have options; null: none differs from the default. */
function signatureOf(draft: Draft): Record<string, string> | null {
  const names = draft.kind === "hmac" ? SIGNATURE : draft.kind === "token" ? (["header"] as const) : [];
  const given = names.filter((name) => draft[name] !== EMPTY[name]);
  return given.length > 0 ? Object.fromEntries(given.map((name) => [name, draft[name] ?? ""])) : null;
}

/** The fields that can be changed later, as JSON texts. */
function fieldsOf(draft: Draft): Record<string, string> {
  const map = pairsOf(draft, "map");
  const conditions = Object.entries(pairsOf(draft, "only_if"));
  const fields = {
    signature: signatureOf(draft),
    map: Object.keys(map).length > 0 ? map : null,
    idempotency: draft.idempotency?.trim() || null,
    only_if: Object.fromEntries(conditions.map(([name, text]) => [name, looseValue(text)])),
    overlap: draft.overlap,
    note: (draft.note ?? "").trim(),
  };
  return {
    ...bindingFields(draft),
    ...Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, JSON.stringify(value)])),
  };
}

export const createJson = (draft: Draft): string =>
  objectText({
    hook_id: JSON.stringify((draft.hook_id ?? "").trim()),
    kind: JSON.stringify(draft.kind),
    ...(draft.secret && { secret: JSON.stringify(draft.secret) }),
    ...fieldsOf(draft),
  });

/** Only what differs from `base`. */
export function changeJson(draft: Draft, base: Draft, revision: number): string {
  const before = fieldsOf(base);
  const changed = Object.entries(fieldsOf(draft)).filter(([name, json]) => json !== before[name]);
  return objectText({ ...Object.fromEntries(changed), revision: String(revision) });
}

/** Own changes on top of those of somebody else. */
export function onTop(mine: Draft, base: Draft, theirs: Draft): Draft {
  const own = Object.entries(mine).filter(([name, text]) => text !== base[name]);
  return { ...theirs, ...Object.fromEntries(own) };
}
