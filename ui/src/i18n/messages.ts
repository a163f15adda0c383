/** Texts in both languages, with type-checked keys and placeholders. Each screen has its own. */
import { useMemo } from "react";
import { isolated } from "../lib/visible";
import { currentLanguage, type Language, useLanguage } from "./language";

/** A text, or singular and plural by `count`. Japanese has no plural. */
export type Message = string | { one: string; other: string };
type Texts = Record<string, Message>;
type Placeholders<M> = M extends { other: infer S }
  ? Placeholders<S> | "count"
  : M extends `${string}{${infer Name}}${infer Rest}`
    ? Name | Placeholders<Rest>
    : never;
type Values<M> = [Placeholders<M>] extends [never] ? [] : [Record<Placeholders<M>, string | number>];

export interface Messages<E extends Texts> {
  en: E;
  ja: Record<keyof E, Message>;
}
export type Translate<E extends Texts> = <K extends keyof E & string>(
  key: K,
  ...values: Values<E[K]>
) => string;

/** Declares the texts of one part of the page; Japanese must have every key. */
export function defineMessages<const E extends Texts>(messages: Messages<E>): Messages<E> {
  return messages;
}

export function translator<E extends Texts>(messages: Messages<E>, language: Language): Translate<E> {
  return (key, ...values) => fill(messages[language][key], language, values[0]);
}

/** The texts in the current language, outside of React. */
export function currentMessages<E extends Texts>(messages: Messages<E>): Translate<E> {
  return translator(messages, currentLanguage());
}

export function useMessages<E extends Texts>(messages: Messages<E>): Translate<E> {
  const language = useLanguage();
  return useMemo(() => translator(messages, language), [messages, language]);
}

/** "a, b" or, in Japanese, "a、b". */
export const listText = (items: readonly string[], language: Language = currentLanguage()): string =>
  items.join(language === "ja" ? "、" : ", ");

// Cached: creating a formatter is slower than formatting a whole list.
const numbers = { en: new Intl.NumberFormat("en"), ja: new Intl.NumberFormat("ja") };

/** Fast path: small integers look the same in every language. */
const written = (value: number, language: Language): string =>
  Number.isInteger(value) && value >= 0 && value < 1000 ? String(value) : numbers[language].format(value);

function fill(message: Message, language: Language, values: Record<string, string | number> = {}): string {
  const text =
    typeof message === "string"
      ? message
      : message[values.count === 1 && language === "en" ? "one" : "other"];
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name] ?? "";
    return typeof value === "number" ? written(value, language) : isolated(value);
  });
}
