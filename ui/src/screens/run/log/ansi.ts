/** Colours of terminals in log lines (SGR sequences). All other escape sequences are removed, none is executed. */
import { type Colour, indexedColour } from "./colours";

export interface TextStyle {
  colour: Colour | null;
  ground: Colour | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
}
/** A part of a text, by the positions of its characters. */
export interface StyledPart {
  from: number;
  to: number;
  style: TextStyle;
}

const PLAIN: TextStyle = {
  colour: null,
  ground: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};
// Colours and cursor movements (CSI; the parameters and final byte are captured), titles and links (OSC), device
// strings, short ones, and what is cut at the end of a line.
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what is looked for.
  /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~]|$)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[PX^_][^\x1b]*(?:\x1b\\|$)|\x1b[ -/]+[0-~]|\x1b[0-Z\\^-~]|\x1b/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what is looked for.
const MAY_ESCAPE = /[\x1b\x9b]/;

/** The text without escape sequences, and its styled parts. */
export function parseAnsi(text: string): { text: string; parts: StyledPart[] } {
  if (!MAY_ESCAPE.test(text)) return { text, parts: [] };
  const parts: StyledPart[] = [];
  let plain = "";
  let style = PLAIN;
  let at = 0;
  const take = (piece: string) => {
    if (piece && style !== PLAIN) parts.push({ from: plain.length, to: plain.length + piece.length, style });
    plain += piece;
  };
  for (const found of text.matchAll(ESCAPES)) {
    take(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[2] === "m") style = styledBy(style, found[1] ?? "");
  }
  take(text.slice(at));
  return { text: plain, parts };
}

/** The style after one SGR sequence, such as `1;38;5;208`. */
function styledBy(before: TextStyle, parameters: string): TextStyle {
  let style = { ...before };
  const codes = parameters.split(";");
  while (codes.length > 0) {
    const [code = 0, ...more] = (codes.shift() ?? "").split(":").map(Number);
    if (code === 0) style = { ...PLAIN };
    else if (code === 38 || code === 48) {
      const colour = more.length > 0 ? colourIn(more, true) : colourIn(codes, false);
      if (colour !== undefined) style[code === 38 ? "colour" : "ground"] = colour;
    } else if (code === 4) style.underline = more[0] !== 0;
    else Object.assign(style, CHANGES[code] ?? colourChange(code));
  }
  return Object.values(style).some(Boolean) ? style : PLAIN;
}

const CHANGES: Record<number, Partial<TextStyle>> = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  7: { inverse: true },
  9: { strike: true },
  21: { underline: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { inverse: false },
  29: { strike: false },
  39: { colour: null },
  49: { ground: null },
};

function colourChange(code: number): Partial<TextStyle> {
  const within = (first: number) => code >= first && code < first + 8;
  if (within(30)) return { colour: indexedColour(code - 30) };
  if (within(90)) return { colour: indexedColour(code - 90 + 8) };
  if (within(40)) return { ground: indexedColour(code - 40) };
  if (within(100)) return { ground: indexedColour(code - 100 + 8) };
  return {};
}

/** `5;N` or `2;R;G;B`; with colons a colour space may stand before the three. Takes what it reads. */
function colourIn(rest: (string | number)[], withColons: boolean): Colour | undefined {
  const kind = Number(rest.shift());
  if (kind === 5) return indexedColour(byte(rest.shift()));
  if (kind !== 2) return undefined;
  if (withColons && rest.length > 3) rest.shift();
  const [red, green, blue] = [byte(rest.shift()), byte(rest.shift()), byte(rest.shift())];
  return [red, green, blue];
}

const byte = (value: string | number | undefined): number =>
  Math.min(Math.max(Math.trunc(Number(value)) || 0, 0), 255);
