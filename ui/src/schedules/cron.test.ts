import { describe, expect, it } from "vitest";
import { cronShape } from "./cron";
import { specText } from "./describe";
import { EMPTY_SPEC, type Spec } from "./schedule";

describe("a cron expression", () => {
  it.each([
    ["* * * * *", { kind: "minutes", every: 1 }],
    ["*/15 * * * *", { kind: "minutes", every: 15 }],
    ["@hourly", { kind: "hours", every: 1, minute: 0 }],
    ["30 */6 * * *", { kind: "hours", every: 6, minute: 30 }],
    ["0 2 * * *", { kind: "daily", times: ["02:00"] }],
    ["0 9,17 * * *", { kind: "daily", times: ["09:00", "17:00"] }],
    ["0 9 * * MON-FRI", { kind: "weekly", days: [1, 2, 3, 4, 5], times: ["09:00"] }],
    ["0 9 * * 7", { kind: "weekly", days: [0], times: ["09:00"] }],
    ["0 0 1,15 * *", { kind: "monthly", days: [1, 15], times: ["00:00"] }],
    ["@yearly", { kind: "yearly", month: 1, day: 1, times: ["00:00"] }],
  ])("%s has a shape", (expression, shape) => expect(cronShape(expression)).toEqual(shape));

  // Not every 7 minutes: the last interval of an hour is shorter.
  it.each([
    "*/7 * * * *",
    "0 9 1 * MON",
    "61 * * * *",
    "0 9 * * MON#1",
    "0 0 L * *",
    "0 0 31 2 *",
    "every day",
    "",
  ])("%s is shown as it is", (expression) => expect(cronShape(expression)).toBeNull());
});

describe("a spec in words", () => {
  const spec = (fields: Partial<Spec>): Spec => ({ ...EMPTY_SPEC, ...fields });

  it("has its cron in words, or as it is", () => {
    expect(specText(spec({ cron: ["0 2 * * *"] }), "en")).toBe("Every day at 02:00");
    expect(specText(spec({ cron: ["0 2 * * *"] }), "ja")).toBe("毎日 02:00");
    expect(specText(spec({ cron: ["0 9 * * 1-5"] }), "en")).toBe("Weekdays at 09:00");
    expect(specText(spec({ cron: ["0 9 * * 1,3"] }), "ja")).toBe("毎週月・水曜日 09:00");
    expect(specText(spec({ cron: ["0 0 1 * *"] }), "en")).toBe("Day 1 of every month at 00:00");
    expect(specText(spec({ cron: ["0 9 * * MON#1"] }), "en")).toBe("0 9 * * MON#1");
  });

  it("has intervals and moments", () => {
    expect(specText(spec({ every_sec: 5400 }), "en")).toBe("Every 1h 30m");
    expect(specText(spec({ every_sec: 30 }), "ja")).toBe("30秒ごと");
    const launch = Date.UTC(2031, 11, 24, 18) / 1000;
    const utc = { timezone: "UTC" };
    expect(specText(spec({ at: [launch], ...utc }), "en")).toBe("Once: Wed, Dec 24, 2031, 18:00");
    const typed = { at: ["2031-12-24T18:00", "2031-12-31T23:59"] as unknown as number[], ...utc };
    expect(specText(spec(typed), "en")).toBe("2 fixed times, from 2031-12-24T18:00");
    expect(specText(spec({ at: [launch], ...utc }), "ja")).toMatch(/^1回のみ: 2031年12月24日.*18:00$/);
    expect(specText(spec({ at: [launch + 60, launch], ...utc }), "en")).toBe(
      "2 fixed times, from Wed, Dec 24, 2031, 18:00",
    );
    expect(specText(spec({ cron: ["@hourly", "0 2 * * *"] }), "en")).toBe(
      "Every hour at :00; Every day at 02:00",
    );
  });
});
