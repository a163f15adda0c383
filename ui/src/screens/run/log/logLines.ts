/** Filters, levels and text of log lines. */
import type { Schemas } from "../../../api/client";
import { folded } from "../../../lib/folding";

export type LogLine = Schemas["LineView"];
export type Level = "error" | "warning" | "other";
export const STREAMS = ["stdout", "stderr", "note"] as const;
export type Stream = (typeof STREAMS)[number];

export interface LogFilter {
  task: string | null;
  streams: ReadonlySet<string>;
  /** The lowest level shown. */
  level: Level;
  search: string;
}

/** The number of lines that a page keeps. */
export const MAX_LINES = 50_000;
// Removed by the thousand, since removal moves the visible lines.
const SLACK = 5_000;

export interface LoadedLines {
  lines: readonly LogLine[];
  /** The number of earlier lines that were dropped. */
  leftOut: number;
}

export function withMore({ lines, leftOut }: LoadedLines, more: readonly LogLine[]): LoadedLines {
  const all = lines.concat(more);
  if (all.length <= MAX_LINES + SLACK) return { lines: all, leftOut };
  return { lines: all.slice(-MAX_LINES), leftOut: leftOut + all.length - MAX_LINES };
}

const ERROR = /\b(ERROR|CRITICAL|FATAL)\b|^Traceback \(most recent|^(\w+\.)*\w*(Error|Exception)\b:/;
const WARNING = /\bWARN(ING)?\b|Warning:/;
// A level is at the beginning of a line.
const BEGINNING = 120;

export function levelOf({ text, stream }: Pick<LogLine, "text" | "stream">): Level {
  const beginning = text.slice(0, BEGINNING);
  if (ERROR.test(beginning)) return "error";
  return stream === "note" || WARNING.test(beginning) ? "warning" : "other";
}

const RANK: Record<Level, number> = { other: 0, warning: 1, error: 2 };

export function shown(lines: readonly LogLine[], filter: LogFilter): readonly LogLine[] {
  const search = folded(filter.search);
  if (filter.task === null && !search && filter.level === "other" && filter.streams.size === STREAMS.length)
    return lines;
  return lines.filter(
    (line) =>
      (filter.task === null || line.task === filter.task) &&
      filter.streams.has(line.stream) &&
      (filter.level === "other" || RANK[levelOf(line)] >= RANK[filter.level]) &&
      (!search || folded(line.text).includes(search)),
  );
}

/** Why no line is shown: no output, or no match. Dropped lines may match. */
export function nothingIn({ lines, leftOut }: LoadedLines, task: string | null, complete: boolean) {
  if (leftOut > 0) return "matchesHere";
  if (lines.length === 0 && task === null) return complete ? "ofRun" : "yet";
  if (task === null || lines.some((line) => line.task === task)) return "matches";
  return complete ? "ofTask" : "ofTaskYet";
}

// ANSI sequences: colours (CSI), titles and links (OSC), and short ones.
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what is looked for.
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])/g;

export const readable = (line: LogLine): LogLine =>
  line.text.includes("\x1b") ? { ...line, text: line.text.replace(ESCAPES, "") } : line;

/** The text split at the search term: every second piece is a match. */
export function pieces(text: string, search: string): string[] {
  const wanted = folded(search);
  if (!wanted) return [text];
  const found: string[] = [];
  const { whole, origin } = foldedWithOrigin(text);
  let at = 0;
  let from = 0;
  for (;;) {
    const next = whole.indexOf(wanted, from);
    if (next < 0) return [...found, text.slice(at)];
    from = next + wanted.length;
    const [begin, end] = [Math.max(at, origin(next)), origin(from - 1, 1)];
    found.push(text.slice(at, begin), text.slice(begin, end));
    at = end;
  }
}

/** The folded text, and the index of each of its characters in the text: one may become several. */
function foldedWithOrigin(text: string) {
  const whole = folded(text);
  if (whole.length === text.length) return { whole, origin: (index: number, after = 0) => index + after };
  const begins: number[] = [];
  const ends: number[] = [];
  let pieced = "";
  let at = 0;
  for (const character of text) {
    const piece = folded(character);
    pieced += piece;
    for (let index = 0; index < piece.length; index++) {
      begins.push(at);
      ends.push(at + character.length);
    }
    at += character.length;
  }
  return {
    whole: pieced,
    origin: (index: number, after = 0) => (after ? ends : begins)[index] ?? text.length,
  };
}

/** As a file: time, stream, task and text of each line. */
export const asText = (lines: readonly LogLine[]): string =>
  lines
    .map(
      ({ ts, stream, task, text }) =>
        `${new Date(ts * 1000).toISOString()} ${stream.padEnd(6)} ${task ?? "-"} | ${text}\n`,
    )
    .join("");
