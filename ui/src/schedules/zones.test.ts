import { describe, expect, it, vi } from "vitest";
import { addMonths, dayOf, isoText, localText, startOfDay, usableZone, weeksOf, zonedTime } from "./zones";

const at = (iso: string) => Date.parse(iso) / 1000;

describe("a day", () => {
  it("is that of the zone", () => {
    expect(dayOf(at("2026-11-17T16:00:00Z"), "Asia/Tokyo")).toBe("2026-11-18");
    expect(dayOf(at("2026-11-17T16:00:00Z"), "UTC")).toBe("2026-11-17");
  });

  it("starts at midnight of the zone, also when clocks change", () => {
    expect(startOfDay("2026-11-18", "Asia/Tokyo")).toBe(at("2026-11-17T15:00:00Z"));
    // Berlin: the last Sundays of March and October.
    expect(startOfDay("2026-03-29", "Europe/Berlin")).toBe(at("2026-03-28T23:00:00Z"));
    expect(startOfDay("2026-03-30", "Europe/Berlin")).toBe(at("2026-03-29T22:00:00Z"));
    expect(startOfDay("2026-10-25", "Europe/Berlin")).toBe(at("2026-10-24T22:00:00Z"));
    expect(startOfDay("2026-10-26", "Europe/Berlin")).toBe(at("2026-10-25T23:00:00Z"));
  });
});

describe("a month", () => {
  it("has whole weeks from Monday", () => {
    const weeks = weeksOf("2026-11-17");
    expect(weeks[0]?.[0]).toBe("2026-10-26");
    expect(weeks.at(-1)?.at(-1)).toBe("2026-12-06");
    expect(weeks.every((week) => week.length === 7)).toBe(true);
  });

  it("has neighbours", () => {
    expect(addMonths("2026-12-31", 1)).toBe("2027-01-01");
    expect(addMonths("2026-01-31", -1)).toBe("2025-12-01");
  });
});

describe("a moment", () => {
  it("is shown in its zone, in both languages", () => {
    const moment = at("2026-11-17T17:00:00Z");
    vi.setSystemTime(at("2026-02-01T00:00:00Z") * 1000);
    expect(zonedTime(moment, "Asia/Tokyo", "en")).toMatch(/Wed, Nov 18, 02:00.*GMT\+9/);
    expect(zonedTime(moment, "Asia/Tokyo", "en", { bare: true })).toBe("Wed, Nov 18, 02:00");
    expect(zonedTime(moment, "Asia/Tokyo", "ja")).toMatch(/11月18日\(水\) 02:00/);
    vi.setSystemTime(at("2025-12-31T20:00:00Z") * 1000);
    expect(zonedTime(moment, "Asia/Tokyo", "en")).not.toContain("2026");
    expect(zonedTime(moment, "UTC", "en")).toContain("2026");
    vi.useRealTimers();
  });

  it("is written as an input and as ISO 8601 have it", () => {
    const moment = at("2026-11-17T17:00:00Z");
    expect(localText(moment, "Asia/Tokyo")).toBe("2026-11-18T02:00");
    expect(localText(moment + 5, "UTC")).toBe("2026-11-17T17:00:05");
    expect(isoText(moment, "America/New_York")).toBe("2026-11-17T12:00-05:00");
    expect(isoText(moment, "Asia/Kolkata")).toBe("2026-11-17T22:30+05:30");
  });

  it("is shown in UTC if the browser does not know its zone", () =>
    expect(usableZone("Mars/Base")).toBe("UTC"));
});
