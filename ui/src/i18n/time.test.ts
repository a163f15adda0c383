import { describe, expect, it } from "vitest";
import { zonedTime } from "../schedules/zones";
import { clockTime, duration, exactTime, interval, momentText, relativeTime } from "./time";

// tests/unit/records/test_durations.py has the same cases for the CLI.
describe("durations", () => {
  it.each([
    [0, "0s", "0秒"],
    [0.0123, "12ms", "12ms"],
    [0.9996, "1s", "1秒"],
    [1.26, "1.3s", "1.3秒"],
    [9.96, "10s", "10秒"],
    [59.4, "59s", "59秒"],
    [59.6, "1m 0s", "1分0秒"],
    [240, "4m 0s", "4分0秒"],
    [3599.7, "1h 0m", "1時間0分"],
    [7500, "2h 5m", "2時間5分"],
    [90_000, "1d 1h", "1日1時間"],
    [604_800, "7d 0h", "7日0時間"],
  ])("%d seconds are %s, %s", (seconds, en, ja) => {
    expect([duration(seconds, "en"), duration(seconds, "ja")]).toEqual([en, ja]);
  });

  it.each([
    [0, "0s", "0秒"],
    [0.5, "500ms", "500ms"],
    [5, "5s", "5秒"],
    [900, "15m", "15分"],
    [5400, "1h 30m", "1時間30分"],
    [90_061, "1d 1h 1m 1s", "1日1時間1分1秒"],
    [120.25, "2m 0.25s", "2分0.25秒"],
  ])("an interval of %d seconds is %s, %s", (seconds, en, ja) => {
    expect([interval(seconds, "en"), interval(seconds, "ja")]).toEqual([en, ja]);
  });
});

describe("ages", () => {
  it.each([
    [1, null, null],
    [59, "59s ago", "59秒前"],
    [299, "4m ago", "4分前"],
    [7199, "1h ago", "1時間前"],
    [86_400 * 10, "10d ago", "10日前"],
    [86_400 * 70, "2mo ago", "2か月前"],
    [86_400 * 800, "2y ago", "2年前"],
    [-250, "in 4m", "4分後"],
  ])("%d seconds ago is %s, %s", (seconds, en, ja) => {
    const now = 2_000_000_000;
    expect([relativeTime(now - seconds, now, "en"), relativeTime(now - seconds, now, "ja")]).toEqual([
      en,
      ja,
    ]);
  });
});

describe("moments", () => {
  it("have one clock of 24 hours in both languages", () => {
    const afternoon = new Date(2026, 10, 18, 18, 2, 31).getTime() / 1000;
    const midnight = new Date(2026, 10, 18, 0, 2, 31).getTime() / 1000;
    for (const language of ["en", "ja"] as const) {
      expect(exactTime(afternoon, language)).toMatch(/\b18:02:31\b/);
      expect(exactTime(afternoon, language)).not.toMatch(/[AP]M|午/);
      // Neither 24:02 nor 12:02.
      expect(exactTime(midnight, language)).toMatch(/\b0?0:02:31\b/);
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      expect(zonedTime(afternoon, zone, language)).toContain("18:02:31");
    }
    expect(clockTime(afternoon)).toBe("18:02:31");
  });

  it("have the day and the second where they stand for themselves", () => {
    const at = new Date(2026, 0, 5, 9, 3, 7).getTime() / 1000;
    expect(momentText(at)).toBe("2026-01-05 09:03:07");
  });
});
