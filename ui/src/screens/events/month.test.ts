import { expect, it } from "vitest";
import { isMonth, monthOf, shifted } from "./month";

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
