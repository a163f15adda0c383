/** Keeps typed text as it is, whatever value it stands for. */
import { createContext, useContext, useState } from "react";
import { type Json, same } from "./json";

/** Typed texts by field path: invalid input survives when the form is opened again. */
export interface TypedTexts {
  get: (place: string) => string | undefined;
  set: (place: string, text: string) => void;
}

/** Where texts outlive their field; default: they do not. */
export const KeptTexts = createContext<TypedTexts>({ get: () => undefined, set: () => undefined });

export function useTyped(
  place: string,
  value: Json | undefined,
  written: (value: Json | undefined) => string,
  read: (text: string) => Json | undefined,
): [string, (text: string) => void] {
  const kept = useContext(KeptTexts);
  const [text, setText] = useState(() => kept.get(place) ?? written(value));
  const meant = read(text);
  // Invalid input is null where a value is required, such as in a list.
  const isOwn = same(meant, value) || (meant === undefined && value === null);
  // The value was changed from outside: a default, or another entry that moved up.
  if (!isOwn) {
    const fresh = written(value);
    if (fresh !== text) setText(fresh);
  }
  const type = (next: string) => {
    setText(next);
    kept.set(place, next);
  };
  return [text, type];
}
