/** JSON with integers of any length: JavaScript rounds those beyond 2^53. */

/** An integer as it was written. */
export class ExactNumber {
  constructor(readonly source: string) {}

  toString(): string {
    return this.source;
  }

  toJSON(): unknown {
    return engine.rawJSON ? engine.rawJSON(this.source) : Number(this.source);
  }
}

// `JSON.rawJSON`, which the types do not have yet.
const engine = JSON as { rawJSON?: (text: string) => unknown };

/** Whether `JSON.stringify` can write an exact number; older browsers cannot. */
export const sendsExact = (): boolean => engine.rawJSON !== undefined;

/** Whether the text is an integer with more digits than a JavaScript number keeps. */
export const isInexact = (text: string): boolean =>
  /^[+-]?\d+$/.test(text) && !Number.isSafeInteger(Number(text));

const LONG = /\d{16}/;
// Strings are matched to skip their content.
const STRING_OR_LONG = /"(?:\\.|[^"\\])*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;
// Marks an exact number while it is a string; random, so that no text contains it.
const MARK = `exact-${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

export function parseJson(text: string): unknown {
  if (!LONG.test(text)) return JSON.parse(text);
  // Validate first: invalid JSON must not become valid by the marks.
  const plain: unknown = JSON.parse(text);
  const marked = text.replace(STRING_OR_LONG, (found) => (isInexact(found) ? `"${MARK}${found}"` : found));
  if (marked === text) return plain;
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(MARK) ? new ExactNumber(value.slice(MARK.length)) : value,
  );
}

/** Formatted JSON, with every number as it was written. */
export function jsonText(value: unknown, indent?: number): string {
  const written = JSON.stringify(
    value,
    function (this: Record<string, unknown>, name: string, each: unknown) {
      const original = this[name];
      return original instanceof ExactNumber ? MARK + original.source : each;
    },
    indent,
  );
  return written === undefined ? "null" : written.replace(MARKED, "$1");
}

const TOKEN = /"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The same JSON with one value per line. Values are not changed. */
export function formattedJson(json: string): string {
  let depth = 0;
  let text = "";
  let before = "";
  for (const [token] of json.matchAll(TOKEN)) {
    const opens = before === "{" || before === "[";
    const closes = token === "}" || token === "]";
    depth += Number(opens) - Number(closes);
    if (opens ? !closes : closes || before === ",") text += `\n${"  ".repeat(depth)}`;
    text += token === ":" ? ": " : token;
    before = token;
  }
  return text;
}
