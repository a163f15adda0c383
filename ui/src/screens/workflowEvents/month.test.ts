import { expect, it } from "vitest";
import { isMonth, monthName, monthOf, monthsAround, shifted } from "./month";

it("goes from month to month over the years", () => {
  expect(shifted("2026-01", -1)).toBe("2025-12");
  expect(shifted("2026-12", 1)).toBe("2027-01");
  expect(shifted("2026-11", -11)).toBe("2025-12");
  expect(shifted("soon", 1)).toBe("soon");
});

it("names the month of a day", () => {
  expect(monthOf(new Date(2026, 0, 31))).toBe("2026-01");
});

it("knows what is a month", () => {
  expect(["2026-01", "2026-12"].every(isMonth)).toBe(true);
  expect(["2026-00", "2026-13", "2026-1", "soon", ""].some(isMonth)).toBe(false);
});

it("is named in the language of the page", () => {
  expect(monthName("2026-11", "en")).toBe("November 2026");
  expect(monthName("2026-01", "ja")).toBe("2026年1月");
});

it("is selected among those of two years and itself", () => {
  const months = monthsAround("2026-10", "2026-11");
  expect(months.slice(0, 2)).toEqual(["2026-11", "2026-10"]);
  expect(months.at(-1)).toBe("2024-11");
  expect(monthsAround("2020-01", "2026-11").at(-1)).toBe("2020-01");
  expect(monthsAround("2027-01", "2026-11")[0]).toBe("2027-01");
  expect(monthsAround("soon", "2026-11")).not.toContain("soon");
});
