/** Completes the word at the caret of the filter field: `fl` to `flow:`, and `flow:da` to a known flow. */
import { isOneOf, TYPED, type Typed } from "./filters";

export interface Completion {
  /** What is suggested. */
  text: string;
  /** The field and its caret after it was chosen. */
  field: string;
  caret: number;
  /** Whether it is a whole filter, which can be applied. */
  isFilter: boolean;
}

export type KnownValues = Partial<Record<Typed, readonly string[]>>;

const MOST = 8;
// A word, in which quotes enclose spaces.
const WORD = /(?:[^\s"]|"[^"]*"?)+$/;

export function completionsFor(field: string, caret: number, known: KnownValues): Completion[] {
  const before = field.slice(0, caret);
  const word = WORD.exec(before)?.[0] ?? "";
  const start = caret - word.length;
  // What follows the caret within the same word is replaced too.
  const rest = field.slice(caret).replace(/^\S+/, "");
  const replaced = (text: string, isFilter: boolean): Completion => {
    const filled = field.slice(0, start) + text;
    return {
      text,
      field: filled + (isFilter && !rest.startsWith(" ") ? ` ${rest}` : rest),
      caret: filled.length + (isFilter ? 1 : 0),
      isFilter,
    };
  };
  const [, name = "", typed = ""] = /^(\w+):(.*)$/.exec(word) ?? [];
  if (!isOneOf(TYPED, name)) {
    if (/[:"]/.test(word)) return [];
    return found(TYPED, word).map((each) => replaced(`${each}:`, false));
  }
  const values = found(known[name] ?? [], typed.replaceAll('"', ""));
  return values.map((value) => replaced(`${name}:${quoted(value)}`, true));
}

/** Those that begin with the text come first. */
function found(values: readonly string[], typed: string): string[] {
  const text = typed.toLowerCase();
  const place = (value: string) => value.toLowerCase().indexOf(text);
  return [...new Set(values)]
    .filter((value) => place(value) >= 0)
    .sort((a, b) => Number(place(a) > 0) - Number(place(b) > 0))
    .slice(0, MOST);
}

// A quote cannot be typed: such a value is chosen by a link.
const quoted = (value: string): string => (/\s/.test(value) ? `"${value.replaceAll('"', "")}"` : value);
