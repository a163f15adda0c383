/** Splits a line of YAML or JSON into pieces that are coloured. */

export type Language = "yaml" | "json";
export type Kind = "key" | "literal" | "comment" | "sign" | "plain";

export interface Piece {
  text: string;
  kind: Kind;
  isWrong?: boolean;
}

interface Range {
  from: number;
  to: number;
}

// In turn: a key, a string, a comment, a number or word, and punctuation. The first that matches counts.
const CLOSED = String.raw`"(?:[^"\\]|\\.)*"`;
const STRING = `${CLOSED}?`;
const LITERAL = String.raw`(?<![\w.-])(?:-?\d[\d.eE+-]*|true|false|null)(?![\w.-])`;
const PATTERNS: Record<Language, RegExp> = {
  json: new RegExp(
    String.raw`(?<key>${CLOSED}(?=\s*:))|(?<plain>${STRING})|(?<literal>${LITERAL})|(?<sign>[{}[\],:])`,
    "g",
  ),
  yaml: new RegExp(
    String.raw`(?<comment>(?<=^|\s)#.*)|(?<key>(?<=^[\s-]*|[{,]\s*)(?:${CLOSED}|'[^']*'|[^\s#:{}[\],"'-][^#:{}[\],"']*)(?=:(?:\s|$)))` +
      String.raw`|(?<plain>${STRING}|'(?:[^']|'')*'?)|(?<literal>${LITERAL}(?=\s*(?:$|[,}\]#])))|(?<sign>[{}[\],:]|(?<=^\s*)-(?=\s))`,
    "g",
  ),
};

/** From a column (counted from 1) to the end of the word, at least one character, or the whole line. */
export function rangeOf(line: string, column: number): Range {
  const from = Math.min(Math.max(column, 1) - 1, line.length);
  const word = /^\s*[^\s:,\]}]+|^./.exec(line.slice(from));
  return word ? { from, to: from + word[0].length } : { from: 0, to: line.length };
}

export function pieces(line: string, language: Language, wrong?: Range): Piece[] {
  const found: Piece[] = [];
  let at = 0;
  for (const { 0: text, index, groups = {} } of line.matchAll(PATTERNS[language])) {
    if (index > at) found.push({ text: line.slice(at, index), kind: "plain" });
    const kind = (Object.keys(groups) as Kind[]).find((name) => groups[name] !== undefined) ?? "plain";
    found.push({ text, kind });
    at = index + text.length;
  }
  if (at < line.length) found.push({ text: line.slice(at), kind: "plain" });
  return wrong ? found.flatMap(splitAt(wrong)) : found;
}

/** Divides the pieces at the ends of a range. */
function splitAt({ from, to }: Range): (piece: Piece) => Piece[] {
  let start = 0;
  return ({ text, kind }) => {
    const [first, last] = [from - start, to - start].map((at) => Math.min(Math.max(at, 0), text.length));
    start += text.length;
    return [
      { text: text.slice(0, first), kind },
      { text: text.slice(first, last), kind, isWrong: true },
      { text: text.slice(last), kind },
    ].filter((piece) => piece.text !== "");
  };
}
