/** Pairs of a form as text: one `name = value` per line. */

export type Pairs = Record<string, string>;

/** The pairs, or the first line that is none. */
export type ParsedPairs = { pairs: Pairs } | { wrong: string };

export function parsePairs(text: string): ParsedPairs {
  const pairs: Pairs = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    const name = line.slice(0, at).trim();
    if (at < 0 || name === "") return { wrong: line.trim() };
    pairs[name] = line.slice(at + 1).trim();
  }
  return { pairs };
}

export const pairText = (pairs: Record<string, unknown>): string =>
  Object.entries(pairs)
    .map(([name, value]) => `${name} = ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("\n");

/** JSON where it is JSON, text otherwise: `true` is a value, `opened` is a text. */
export function looseValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Values as the form shows them: a text that would be read as JSON is quoted. */
export const looseText = (value: unknown): string =>
  typeof value === "string" && looseValue(value) === value ? value : JSON.stringify(value);
