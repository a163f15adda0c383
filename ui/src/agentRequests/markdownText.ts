/** The structure of a Markdown text. Every pattern is bounded: no text takes longer than its length says. */

export interface Item {
  text: string;
  /** Of a list of tasks; null: it is none. */
  checked: boolean | null;
  blocks: Block[];
}
export type Block =
  | { kind: "heading"; level: number; text: string }
  | { kind: "code"; text: string }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; ordered: boolean; start: number; items: Item[] }
  | { kind: "table"; head: string[]; rows: string[][] }
  | { kind: "line" }
  | { kind: "text"; text: string };
export type Inline =
  | { kind: "plain" | "code" | "strong" | "em" | "del"; text: string }
  | { kind: "link"; text: string; url: string }
  | { kind: "break" };

const MAX_DEPTH = 12;
const FENCE = /^ {0,3}(`{3,20}|~{3,20})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const LINE = /^ {0,3}(?:(?:\*[ \t]*){3,40}|(?:-[ \t]*){3,40}|(?:_[ \t]*){3,40})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})(?:([-*+])|(\d{1,9})[.)])( {1,4}|\t|$)/;
const TASK = /^\[([ xX])\] /;
const DELIMITERS = /^ {0,3}\|?(?: {0,20}:?-{1,200}:? {0,20}\|){1,50}(?: {0,20}:?-{1,200}:? {0,20})?$/;
const COMMENT = /^ {0,3}<!--.*-->\s*$/;

export const blocksOf = (text: string): Block[] => parse(text.replaceAll("\r\n", "\n").split("\n"), 0);

function parse(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = blockAt(lines, at, depth);
    if (block) blocks.push(block);
    at = next;
  }
  return blocks;
}

/** The block that begins at a line, and the line after it. */
function blockAt(lines: readonly string[], at: number, depth: number): [Block | null, number] {
  const line = lines[at] ?? "";
  if (line.trim() === "" || COMMENT.test(line)) return [null, at + 1];
  const fence = FENCE.exec(line)?.[1];
  if (fence) return codeAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const text = (heading[2] ?? "").trimEnd().replace(/ #{1,6}$/, "");
    return [{ kind: "heading", level: heading[1]?.length ?? 1, text }, at + 1];
  }
  if (LINE.test(line)) return [{ kind: "line" }, at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) {
    const end = firstFrom(lines, at, (each) => !QUOTE.test(each));
    const inside = lines.slice(at, end).map((each) => each.replace(QUOTE, ""));
    return [{ kind: "quote", blocks: parse(inside, depth + 1) }, end];
  }
  if (depth < MAX_DEPTH && ITEM.test(line)) return listAt(lines, at, depth);
  if (line.includes("|") && DELIMITERS.test(lines[at + 1] ?? "")) return tableAt(lines, at);
  const end = firstFrom(lines, at + 1, (each) => each.trim() === "" || startsBlock(each));
  return [{ kind: "text", text: lines.slice(at, end).join("\n") }, end];
}

const startsBlock = (line: string): boolean =>
  [FENCE, HEADING, LINE, QUOTE, ITEM].some((pattern) => pattern.test(line));

function firstFrom(lines: readonly string[], from: number, found: (line: string) => boolean): number {
  let at = from;
  while (at < lines.length && !found(lines[at] ?? "")) at++;
  return at;
}

function codeAt(lines: readonly string[], at: number, fence: string): [Block, number] {
  const isEnd = (line: string) => line.trim().startsWith(fence) && FENCE.exec(line)?.[1] === line.trim();
  const end = firstFrom(lines, at + 1, isEnd);
  return [{ kind: "code", text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function listAt(lines: readonly string[], at: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[at] ?? "");
  const ordered = first?.[3] !== undefined;
  const items: Item[] = [];
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next] ?? "");
    if (!found || (found[3] !== undefined) !== ordered || LINE.test(lines[next] ?? "")) break;
    const indent = found[0].length;
    const end = itemEnd(lines, next + 1, Math.min(indent, 2));
    const own = [
      (lines[next] ?? "").slice(indent),
      ...lines.slice(next + 1, end).map((each) => outdented(each, indent)),
    ];
    items.push(itemOf(own, depth));
    next = end;
  }
  return [{ kind: "list", ordered, start: Number(first?.[3] ?? 1), items }, next];
}

/** An item goes on with indented lines, and with text directly below it. */
function itemEnd(lines: readonly string[], from: number, indent: number): number {
  let at = from;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const isInside = line.startsWith(" ".repeat(indent)) || line.startsWith("\t");
    if (line.trim() === "") {
      const after = lines[at + 1] ?? "";
      const goesOn = (after.startsWith(" ".repeat(indent)) || after.startsWith("\t")) && after.trim() !== "";
      if (!goesOn && !ITEM.test(after)) return at;
      if (!goesOn) return at + 1;
    } else if (!isInside && startsBlock(line)) return at;
    at++;
  }
  return at;
}

const outdented = (line: string, indent: number): string =>
  line.startsWith("\t") ? line.slice(1) : line.slice(Math.min(indent, line.length - line.trimStart().length));

function itemOf(lines: readonly string[], depth: number): Item {
  const end = firstFrom(lines, 1, (line) => line.trim() === "" || startsBlock(line));
  const first = lines.slice(0, end).join("\n");
  const task = TASK.exec(first);
  return {
    text: task ? first.slice(task[0].length) : first,
    checked: task ? task[1] !== " " : null,
    blocks: parse(lines.slice(end), depth + 1),
  };
}

function tableAt(lines: readonly string[], at: number): [Block, number] {
  const end = firstFrom(lines, at + 2, (line) => !line.includes("|") || line.trim() === "");
  const head = cellsOf(lines[at] ?? "");
  const rows = lines.slice(at + 2, end).map((line) => {
    const cells = cellsOf(line);
    return head.map((_, index) => cells[index] ?? "");
  });
  return [{ kind: "table", head, rows }, end];
}

const cellsOf = (line: string): string[] =>
  line
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));

// In this order: code, escape, strong, emphasis, deletion, link (or image), address, line break.
const INLINE =
  /`([^`\n]{1,400})`|\\([\\`*_{}[\]()#+.!|~<>-])|(?:\*\*(?=\S)([^\n]{1,400}?\S|\S)\*\*)|(?<![\w*])[*_](?=[^\s*_])([^*_\n]{1,400})(?<=\S)[*_](?![\w*])|~~([^~\n]{1,400})~~|!?\[([^\]\n]{1,400})\]\((https?:\/\/[^\s()<>]{1,800})\)|(https?:\/\/[^\s<>"'`)\]]{1,800})|( {2,9}|\\)\n/g;

export function inlinesOf(text: string): Inline[] {
  const found: Inline[] = [];
  let at = 0;
  const plain = (words: string) => {
    if (words) found.push({ kind: "plain", text: words });
  };
  for (const match of text.matchAll(INLINE)) {
    plain(text.slice(at, match.index));
    at = match.index + match[0].length;
    const [, code, escaped, strong, em, del, label, url, address] = match;
    if (code !== undefined) found.push({ kind: "code", text: code });
    else if (escaped !== undefined) plain(escaped);
    else if (strong !== undefined) found.push({ kind: "strong", text: strong });
    else if (em !== undefined) found.push({ kind: "em", text: em });
    else if (del !== undefined) found.push({ kind: "del", text: del });
    else if (label !== undefined && url !== undefined) found.push({ kind: "link", text: label, url });
    else if (address !== undefined) {
      const clean = address.replace(/[.,;:!?。、）]{1,20}$/, "");
      found.push({ kind: "link", text: clean, url: clean });
      plain(address.slice(clean.length));
    } else found.push({ kind: "break" });
  }
  plain(text.slice(at));
  return found;
}
