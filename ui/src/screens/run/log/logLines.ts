/** Filters, levels and text of log lines. */
import type { Schemas } from "../../../api/client";
import { folded } from "../../../lib/folding";
import { parseAnsi, type StyledPart } from "./ansi";
import { LEVELS, type Level, type Structure, structureOf } from "./structure";

/** A line without escape sequences; `parts` are coloured. */
export type LogLine = Schemas["LineView"] & { parts?: readonly StyledPart[] };
export const STREAMS = ["stdout", "stderr", "note"] as const;
export type Stream = (typeof STREAMS)[number];

export interface LogFilter {
  task: string | null;
  streams: ReadonlySet<string>;
  /** The lowest level shown; null: all lines. */
  level: Level | null;
  /** Only lines with this text, and so many around each; null: all lines. */
  only: { search: string; context: number } | null;
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

export interface LoadedPart {
  lines: readonly LogLine[];
  /** Whether there are others. */
  isPart: boolean;
}

export function withMore({ lines, leftOut }: LoadedLines, more: readonly LogLine[]): LoadedLines {
  const all = lines.concat(more);
  if (all.length <= MAX_LINES + SLACK) return { lines: all, leftOut };
  return { lines: all.slice(-MAX_LINES), leftOut: leftOut + all.length - MAX_LINES };
}

const structures = new WeakMap<LogLine, Structure>();

/** Parsed once per line. */
export function structure(line: LogLine): Structure {
  const known = structures.get(line);
  if (known) return known;
  const found = structureOf(line.text);
  structures.set(line, found);
  return found;
}

const ERROR = /\b(ERROR|CRITICAL|FATAL)\b|^Traceback \(most recent|^(\w+\.)*\w*(Error|Exception)\b:/;
const WARNING = /\bWARN(ING)?\b|Warning:/;
const BEGINNING = 120;

/** The level that a line names, or that its text suggests; null: neither. */
export function levelOf(line: LogLine): Level | null {
  const { level } = structure(line);
  if (level) return level;
  const beginning = line.text.slice(0, BEGINNING);
  if (ERROR.test(beginning)) return "error";
  return line.stream === "note" || WARNING.test(beginning) ? "warning" : null;
}

const rankOf = (level: Level | null): number => LEVELS.indexOf(level ?? "info");
const INDENTED = /^\s+\S/;

export function shown(lines: readonly LogLine[], filter: LogFilter): readonly LogLine[] {
  const { task, streams, level } = filter;
  if (task === null && level === null && streams.size === STREAMS.length) return lines;
  const isLevelShown = level === null ? () => true : levelFilter(level);
  return lines.filter((line) => {
    // Of every line: an indented one has the level of the line before it.
    const passes = isLevelShown(line);
    return passes && (task === null || line.task === task) && streams.has(line.stream);
  });
}

/** Indented lines, as of a traceback, have the level of the line that they continue. */
export function levelFilter(least: Level): (line: LogLine) => boolean {
  const before = new Map<string, Level | null>();
  return (line) => {
    const source = `${line.stream} ${line.task}`;
    const level = levelOf(line) ?? (INDENTED.test(line.text) ? (before.get(source) ?? null) : null);
    before.set(source, level);
    return rankOf(level) >= rankOf(least);
  };
}

/** The positions of the lines that contain the text. */
export function matchesIn(lines: readonly LogLine[], search: string): number[] {
  const wanted = folded(search);
  if (!wanted) return [];
  return [...lines.keys()].filter((at) => folded(lines[at]?.text ?? "").includes(wanted));
}

export interface FoundLine {
  line: LogLine;
  /** The number of lines that were left out before it. */
  skipped: number;
}

/** As `grep -C`: each line that contains the text, with so many lines before and after it. Lines come one by one. */
export function contextFilter({ search, context }: { search: string; context: number }) {
  const wanted = folded(search);
  const before: LogLine[] = [];
  let after = 0;
  let skipped = 0;
  return (line: LogLine): FoundLine[] => {
    const isMatch = folded(line.text).includes(wanted);
    if (!isMatch && after === 0) {
      before.push(line);
      if (before.length > context) {
        before.shift();
        skipped += 1;
      }
      return [];
    }
    after = isMatch ? context : after - 1;
    const found = [...before.splice(0), line].map((each) => {
      const left = skipped;
      skipped = 0;
      return { line: each, skipped: left };
    });
    return found;
  };
}

/** Why no line is shown: no output, or no match. Lines that are not loaded may match. */
export function nothingIn({ lines, isPart }: LoadedPart, task: string | null, complete: boolean) {
  if (isPart) return "matchesHere";
  if (lines.length === 0 && task === null) return complete ? "ofRun" : "yet";
  if (task === null || lines.some((line) => line.task === task)) return "matches";
  return complete ? "ofTask" : "ofTaskYet";
}

/** Without escape sequences; colours become parts. */
export function readable(line: Schemas["LineView"]): LogLine {
  const { text, parts } = parseAnsi(line.text);
  if (text === line.text) return line;
  return parts.length > 0 ? { ...line, text, parts } : { ...line, text };
}

export interface Segment {
  text: string;
  isMatch: boolean;
  part: StyledPart | null;
}

/** The text split at matches of the search and at changes of its style. */
export function segments(text: string, search: string, parts: readonly StyledPart[] = []): Segment[] {
  let at = 0;
  return pieces(text, search).flatMap((piece, index) => {
    const begin = at;
    at += piece.length;
    return styled(text, begin, at, parts).map((each) => ({ ...each, isMatch: index % 2 === 1 }));
  });
}

function styled(text: string, from: number, to: number, parts: readonly StyledPart[]) {
  const found: { text: string; part: StyledPart | null }[] = [];
  let at = from;
  const take = (end: number, part: StyledPart | null) => {
    if (end > at) found.push({ text: text.slice(at, end), part });
    at = Math.max(at, end);
  };
  for (const part of parts) {
    if (part.to <= from || part.from >= to) continue;
    take(Math.max(part.from, from), null);
    take(Math.min(part.to, to), part);
  }
  take(to, null);
  return found;
}

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
