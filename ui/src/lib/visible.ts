/** Makes text of people and programs safe to display.
 *
 * Characters that reverse the direction or are invisible can make a name look like another one.
 */

// Control characters except tab and line feed, direction marks, invisible ones, fillers, tags, lone surrogates.
// The joiners U+200C and U+200D stay: scripts and emoji need them.
const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
  /[\0-\x08\x0B-\x1F\x7F-\x9F\u00AD\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB\u{E0000}-\u{E007F}]|\u034F|\p{Surrogate}/gu;
const RIGHT_TO_LEFT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;
// In parentheses, so that `split` returns it as every second piece.
const ISOLATED = /(\u2068[^\u2066-\u2069]*\u2069)/gu;

const codeOf = (sign: string): string =>
  (sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");

const withCodes = (text: string): string => text.replace(UNSEEN, (sign) => `⟨U+${codeOf(sign)}⟩`);

/** Shows the code of every invisible character: `a⟨U+202E⟩b`.
 *
 * Idempotent: the marks of `isolated` stay.
 */
export const visible = (text: string): string =>
  text
    // CRLF line endings.
    .replaceAll("\r\n", "\n")
    .split(ISOLATED)
    .map((piece, at) =>
      at % 2 && RIGHT_TO_LEFT.test(piece) ? `\u2068${withCodes(piece.slice(1, -1))}\u2069` : withCodes(piece),
    )
    .join("");

/** Isolates the direction of a text inside a sentence. */
export function isolated(text: string): string {
  const shown = visible(text);
  return RIGHT_TO_LEFT.test(shown.replaceAll(ISOLATED, "")) ? `\u2068${shown}\u2069` : shown;
}

/** Equivalent JSON with an escape for every invisible character. */
export const visibleJson = (json: string): string =>
  json.replace(UNSEEN, (sign) => [...Array(sign.length).keys()].map((at) => escapeOf(sign, at)).join(""));

const escapeOf = (sign: string, at: number): string =>
  `\\u${sign.charCodeAt(at).toString(16).padStart(4, "0")}`;
