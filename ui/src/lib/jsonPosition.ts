/** The position of a JSON syntax error: browsers differ in reporting it. */

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: what JSON does not allow in a string.
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: as above.
const PLAIN = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/y;

class Stop extends Error {
  constructor(readonly at: number) {
    super();
  }
}

/** The position of the first invalid character; null if the text is valid JSON. */
export function errorPosition(text: string): number | null {
  let at = 0;

  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.test(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const skip = () => take(SPACE);
  const next = (character: string): boolean => {
    skip();
    if (text[at] !== character) return false;
    at += 1;
    return true;
  };
  const need = (found: boolean) => {
    if (!found) throw new Stop(at);
  };
  const list = (end: string, item: () => void) => {
    if (next(end)) return;
    do item();
    while (next(","));
    need(next(end));
  };
  const member = () => {
    skip();
    need(take(STRING));
    need(next(":"));
    value();
  };
  const value = () => {
    if (next("{")) list("}", member);
    else if (next("[")) list("]", value);
    else need(take(STRING) || take(PLAIN));
  };

  try {
    value();
    skip();
    need(at === text.length);
    return null;
  } catch (stopped) {
    if (stopped instanceof Stop) return stopped.at;
    throw stopped;
  }
}
