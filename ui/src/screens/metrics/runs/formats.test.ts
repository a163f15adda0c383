import { renderHook } from "@testing-library/react";
import { expect, it } from "vitest";
import { useFormats } from "./formats";

it("compares two rates in one unit", () => {
  const { rate } = renderHook(() => useFormats()).result.current;
  expect([rate(1.5, 0.75), rate(0.75, 1.5)]).toEqual(["36 / day", "18 / day"]);
  expect([rate(12.4, 3), rate(3, 12.4), rate(0, 2)]).toEqual(["12.4 / h", "3 / h", "0 / h"]);
});
