import { describe, expect, it } from "vitest";
import { parseAnsi } from "./ansi";
import { contrast, cssOf, indexedColour, readable as readableOn } from "./colours";
import {
  asText,
  contextFilter,
  type LogFilter,
  type LogLine,
  levelOf,
  MAX_LINES,
  matchesIn,
  nothingIn,
  pieces,
  readable,
  STREAMS,
  segments,
  shown,
  withMore,
} from "./logLines";
import { structureOf } from "./structure";

const line = (text: string, fields: Partial<LogLine> = {}): LogLine => ({
  id: text,
  ts: 0,
  task: "t",
  stream: "stdout",
  text,
  attempt: 1,
  ...fields,
});

describe("the log", () => {
  const all: LogFilter = { task: null, streams: new Set(STREAMS), level: null, only: null };

  it("finds the level of a line", () => {
    expect(levelOf(line("2026-11-15 ERROR it broke"))).toBe("error");
    expect(levelOf(line("ValueError: bad row"))).toBe("error");
    expect(levelOf(line("UserWarning: old"))).toBe("warning");
    expect(levelOf(line("3 lines dropped", { stream: "note" }))).toBe("warning");
    expect(levelOf(line("no errors were found"))).toBeNull();
  });

  it("is filtered by task, stream, level and text", () => {
    const lines = [
      line("Hello", { task: "a" }),
      line("WARNING world", { stream: "stderr" }),
      line("ERROR", { task: null }),
    ];
    const texts = (filter: Partial<LogFilter>) =>
      shown(lines, { ...all, ...filter }).map((each) => each.text);
    expect(shown(lines, all)).toBe(lines);
    expect(texts({ task: "a" })).toEqual(["Hello"]);
    expect(texts({ streams: new Set(["stderr"]) })).toEqual(["WARNING world"]);
    expect(texts({ level: "warning" })).toEqual(["WARNING world", "ERROR"]);
    expect(texts({ level: "debug" })).toEqual(["Hello", "WARNING world", "ERROR"]);
  });

  it("is split at matches", () => {
    expect(pieces("a Bc b", "b")).toEqual(["a ", "B", "c ", "b", ""]);
    expect(pieces("text", "")).toEqual(["text"]);
    expect(pieces("die Straße", "STRASSE")).toEqual(["die ", "Straße", ""]);
    expect(pieces("ΟΔΟΣ, οδος", "οδος")).toEqual(["", "ΟΔΟΣ", ", ", "οδος", ""]);
  });

  it("says why nothing is shown", () => {
    const lines = [line("Hello", { task: "a" })];
    const none = { lines: [], isPart: false };
    const some = { lines, isPart: false };
    expect(nothingIn(none, null, true)).toBe("ofRun");
    expect(nothingIn(none, "a", true)).toBe("ofTask");
    expect(nothingIn(none, null, false)).toBe("yet");
    expect(nothingIn(some, "b", true)).toBe("ofTask");
    expect(nothingIn(some, "b", false)).toBe("ofTaskYet");
    expect(nothingIn(some, "a", true)).toBe("matches");
    expect(nothingIn(some, null, true)).toBe("matches");
    expect(nothingIn({ lines, isPart: true }, "b", true)).toBe("matchesHere");
  });

  it.each([
    ["\x1b[31mred\x1b[0m", "red"],
    ["\x1b[1;38;5;208mbold\x1b[m and plain", "bold and plain"],
    ["\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "link"],
    ["\x1b]0;title\x07text", "text"],
    ["\x1b[2K\x1b[1Gdone", "done"],
    ["\x1b(Bascii\x1b7", "ascii"],
    ["[31m is text", "[31m is text"],
  ])("has no escape sequences: %j", (text, read) => expect(readable(line(text)).text).toBe(read));

  it("is bounded, and counts dropped lines", () => {
    const many = withMore({ lines: [], leftOut: 3 }, Array(MAX_LINES).fill(line("old")));
    expect(many).toMatchObject({ leftOut: 3, lines: { length: MAX_LINES } });
    const more = withMore(many, Array(20_000).fill(line("new")));
    expect(more).toMatchObject({ leftOut: 20_003, lines: { length: MAX_LINES } });
    expect(more.lines.at(-1)?.text).toBe("new");
  });

  it("can be downloaded", () => {
    expect(asText([line("Hello")])).toBe("1970-01-01T00:00:00.000Z stdout t | Hello\n");
  });
});

describe("the search", () => {
  const lines = ["a", "b", "x1", "c", "d", "e", "f", "x2", "x3", "g"].map((text) => line(text));
  const around = (context: number) =>
    lines
      .flatMap(contextFilter({ search: "X", context }))
      .map(({ line: { text }, skipped }) => [text, skipped]);

  it("finds the lines", () => {
    expect(matchesIn(lines, "X")).toEqual([2, 7, 8]);
    expect(matchesIn(lines, "")).toEqual([]);
  });

  it("shows matches with lines around them, each once, and counts what is left out", () => {
    expect(around(0)).toEqual([
      ["x1", 2],
      ["x2", 4],
      ["x3", 0],
    ]);
    expect(around(1)).toEqual([
      ["b", 1],
      ["x1", 0],
      ["c", 0],
      ["f", 2],
      ["x2", 0],
      ["x3", 0],
      ["g", 0],
    ]);
    expect(around(2).map(([text]) => text)).toEqual(["a", "b", "x1", "c", "d", "e", "f", "x2", "x3", "g"]);
  });

  it("is marked across changes of colour", () => {
    const { text, parts } = readable(line("\x1b[31mred and\x1b[0m blue"));
    expect(
      segments(text, "d an", parts).map((each) => [each.text, each.isMatch, each.part !== null]),
    ).toEqual([
      ["re", false, true],
      ["d an", true, true],
      ["d", false, true],
      [" blue", false, false],
    ]);
  });
});

describe("colours of terminals", () => {
  const styles = (text: string) =>
    parseAnsi(text).parts.map(({ from, to, style }) => [
      parseAnsi(text).text.slice(from, to),
      Object.fromEntries(Object.entries(style).filter(([, value]) => value)),
    ]);

  it.each([
    ["\x1b[31mred\x1b[0m", [["red", { colour: [187, 41, 41] }]]],
    ["\x1b[1;38;5;208mx\x1b[m y", [["x", { bold: true, colour: [255, 135, 0] }]]],
    ["\x1b[38;2;1;2;300mx", [["x", { colour: [1, 2, 255] }]]],
    ["\x1b[38:2::1:2:3mx\x1b[39my", [["x", { colour: [1, 2, 3] }]]],
    [
      "\x1b[97;44mx\x1b[49my",
      [
        ["x", { colour: [255, 255, 255], ground: [40, 90, 200] }],
        ["y", { colour: [255, 255, 255] }],
      ],
    ],
    ["\x1b[3;4;9mx\x1b[23;24;29my", [["x", { italic: true, underline: true, strike: true }]]],
    ["\x1b[7mx\x1b[27my", [["x", { inverse: true }]]],
    [
      "\x1b[38;5mx\x1b[99;38my",
      [
        ["x", { colour: [0, 0, 0] }],
        ["y", { colour: [0, 0, 0] }],
      ],
    ],
    ["\x1b[2Jx\x1b[10;10Hy", []],
  ])("%j", (text, expected) => expect(styles(text)).toEqual(expected));

  it("can be read on every ground, in both themes", () => {
    const grounds = [
      [230, 230, 228],
      [239, 238, 232],
      [35, 50, 82],
      [13, 16, 22],
      [187, 41, 41],
    ] as const;
    for (let index = 0; index < 256; index++)
      for (const ground of grounds)
        expect(contrast(readableOn(indexedColour(index), ground), ground)).toBeGreaterThan(4.5);
  });

  it("become styles of numbers only", () => {
    const [part] = parseAnsi("\x1b[1;4;38;2;300;9999;7m<b>hi</b>\x1b[0m").parts;
    const css = part && cssOf(part.style);
    expect(css).toMatchObject({ fontWeight: 650, textDecoration: "underline" });
    expect(String(css?.color)).toMatch(/^light-dark\(rgb\([\d ]+\), rgb\([\d ]+\)\)$/);
  });
});

describe("structured lines", () => {
  it.each([
    ['{"level":"ERROR","message":"no","code":7}', "error", "no", [["code", "7"]]],
    ['{"severity":"warning","msg":"slow","ctx":{"a":1}}', "warning", "slow", [["ctx", '{"a":1}']]],
    ['{"levelname":"INFO","message":"ok","name":"etl"}', "info", "ok", [["name", "etl"]]],
    ['{"event":"started","level":"debug"}', "debug", "started", []],
    ['{"levelno":40,"message":"no"}', "error", "no", []],
    ['{"level":3,"short_message":"no","version":"1.1"}', "error", "no", [["version", "1.1"]]],
    ['{"text":"x","record":{"level":{"name":"SUCCESS","no":25},"message":"ok"}}', "info", "ok", []],
    ['{"orders":3,"total":7}', null, null, []],
    ['{"level":"high","pressure":7}', null, null, []],
    ['{"message": broken}', null, null, []],
    ["[1, 2]", null, null, []],
  ])("%s", (text, level, message, fields) => expect(structureOf(text)).toEqual({ level, message, fields }));

  it.each([
    ["ERROR:root:no", "error"],
    ["2026-11-15 12:00:00,123 - etl.load - WARNING - slow", "warning"],
    ["2026-11-15 12:00:00.123 | INFO     | load:run:7 - ok", "info"],
    ["[2026-11-15 12:00:00 +0000] [7] [CRITICAL] WORKER TIMEOUT", "critical"],
    ["INFO:     Started server process", "info"],
    ["12:00:01 DEBUG etl: x", "debug"],
    ["[error] no", "error"],
    ["I1115 12:00:00.123456 7 main.go:1] ok", "info"],
    ['ts=12:00 level=warn msg="slow"', "warning"],
    ["level=error", null],
    ["INFORMATION about orders", "info"],
    ["no ERROR here", null],
    ["12 rows had ERROR values", null],
    ["Errors: 0", null],
  ])("%s has the level %s", (text, level) => expect(structureOf(text).level).toBe(level));

  it("lines of a traceback have the level of the line before them", () => {
    const lines = [
      line("INFO start"),
      line("ERROR:root:no"),
      line("Traceback (most recent call last):"),
      line('  File "x.py", line 1'),
      line("  other task", { task: "u" }),
      line("ValueError: no"),
      line("done"),
    ];
    const all = { task: null, streams: new Set(STREAMS), level: "error", only: null } as const;
    expect(shown(lines, all).map(({ text }) => text)).toEqual([
      "ERROR:root:no",
      "Traceback (most recent call last):",
      '  File "x.py", line 1',
      "ValueError: no",
    ]);
  });
});
