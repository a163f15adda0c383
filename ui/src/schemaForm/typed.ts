/** A text that stands for a value: what is typed stays as it is typed, whatever value it means. */
import { createContext, useContext, useState } from "react";
import { type Json, same } from "./json";

/** Texts by the place of their field: who comes back to a form finds what was no value yet, too. */
export interface TypedTexts {
  get: (place: string) => string | undefined;
  set: (place: string, text: string) => void;
}

/** Where texts outlive their field; without it, they go with it. */
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
  // What is no value yet is null where there must be one, such as in a list.
  const isOwn = same(meant, value) || (meant === undefined && value === null);
  // The value came from elsewhere: a default, or another entry that moved up.
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
