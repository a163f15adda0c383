/** Levels, messages and fields of structured log lines: JSON, logfmt, and prefixes as Python's logging writes. */

export const LEVELS = ["trace", "debug", "info", "warning", "error", "critical"] as const;
export type Level = (typeof LEVELS)[number];

export interface Structure {
  /** Null: the line names none. */
  level: Level | null;
  /** Null: the whole text is the message. */
  message: string | null;
  fields: readonly (readonly [name: string, value: string])[];
}

const WORDS: Record<string, Level> = {
  TRACE: "trace",
  VERBOSE: "trace",
  DEBUG: "debug",
  DBG: "debug",
  INFO: "info",
  INFORMATION: "info",
  NOTICE: "info",
  SUCCESS: "info",
  WARN: "warning",
  WARNING: "warning",
  ERROR: "error",
  ERR: "error",
  SEVERE: "error",
  CRITICAL: "critical",
  FATAL: "critical",
  PANIC: "critical",
  ALERT: "critical",
  EMERGENCY: "critical",
};
// Longer lines are no log records, but data.
const LONGEST_JSON = 32_768;
const LEVEL_KEYS = ["level", "severity", "levelname", "lvl", "log.level", "loglevel", "levelno"];
const MESSAGE_KEYS = ["message", "msg", "event", "short_message"];

const NOTHING: Structure = { level: null, message: null, fields: [] };

export function structureOf(text: string): Structure {
  return jsonRecord(text) ?? { ...NOTHING, level: logfmtLevel(text) ?? prefixLevel(text) };
}

function jsonRecord(text: string): Structure | null {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{") || !trimmed.endsWith("}") || trimmed.length > LONGEST_JSON) return null;
  const parsed = parsedObject(trimmed);
  if (!parsed) return null;
  // Loguru nests its record.
  const inner = isObject(parsed.record) && isObject(parsed.record.level) ? parsed.record : parsed;
  const levelKey = LEVEL_KEYS.find((key) => levelFrom(inner[key], key) !== null);
  const messageKey = MESSAGE_KEYS.find((key) => typeof inner[key] === "string");
  if (!levelKey && !messageKey) return null;
  const level = levelKey ? levelFrom(inner[levelKey], levelKey) : null;
  if (!messageKey) return { ...NOTHING, level };
  const fields = Object.entries(inner)
    .filter(([key]) => key !== messageKey && key !== levelKey)
    .map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)] as const);
  return { level, message: inner[messageKey] as string, fields };
}

function parsedObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    // Not JSON: a line of text.
    return null;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function levelFrom(value: unknown, key: string): Level | null {
  if (typeof value === "string") return WORDS[value.trim().toUpperCase()] ?? null;
  if (typeof value === "number") return numbered(value, key);
  return isObject(value) ? levelFrom(value.name, "name") : null;
}

const SYSLOG: readonly Level[] = [
  "critical",
  "critical",
  "critical",
  "error",
  "warning",
  "info",
  "info",
  "debug",
];

/** Of Python's logging from 10 to 50, of syslog from 0 (the worst) to 7. */
function numbered(value: number, key: string): Level | null {
  if (!Number.isFinite(value) || value < 0 || value > 60) return null;
  if (value <= 7 && key !== "levelno") return SYSLOG[Math.floor(value)] ?? null;
  return LEVELS[Math.min(Math.floor(value / 10), 5)] ?? null;
}

const LOGFMT = /(?:^|\s)(?:level|lvl|severity)="?([A-Za-z]+)"?(?=\s|$)/;
const PAIR = /(?:^|\s)[\w.@-]+=\S/g;

/** `ts=12:00 level=warn msg="..."`: at least two pairs. */
function logfmtLevel(text: string): Level | null {
  const word = LOGFMT.exec(text.slice(0, BEGINNING))?.[1];
  if (!word || (text.match(PAIR)?.length ?? 0) < 2) return null;
  return WORDS[word.toUpperCase()] ?? null;
}

// A level is at the beginning of a line.
const BEGINNING = 160;
const UPPER = Object.keys(WORDS).join("|");
// `ERROR:root:no`, `[2026-11-15 12:00:00] WARNING in app`, `12:00:00.123 | INFO | load:7`, `[error] no`.
const FIRST = new RegExp(
  `^[\\s\\[(<]*(?:[\\d\\-:.,/TZ+\\s\\[\\]()|]*[\\s\\[(<|])?(?:(${UPPER})(?=$|[\\s\\]):>|,;-])|\\[(${UPPER.toLowerCase()})\\])`,
);
// `2026-11-15 12:00:00,123 - pipeline.load - ERROR - no`, also with bars or brackets.
const NAMED = new RegExp(
  `^(?:\\d{4}-\\d{2}-\\d{2}|\\d{2}:\\d{2})[^"'=]{0,120}?\\s[-|]?\\s*\\[?(${UPPER})\\]?\\s*(?:[-|:]|\\s)`,
);
const GLOG = /^([IWEF])\d{4}\s\d{2}:\d{2}/;
const GLOG_LEVELS: Record<string, Level> = { I: "info", W: "warning", E: "error", F: "critical" };

function prefixLevel(text: string): Level | null {
  const beginning = text.slice(0, BEGINNING);
  const found = FIRST.exec(beginning) ?? NAMED.exec(beginning);
  const word = found?.[1] ?? found?.[2];
  if (word) return WORDS[word.toUpperCase()] ?? null;
  return GLOG_LEVELS[GLOG.exec(beginning)?.[1] ?? ""] ?? null;
}
