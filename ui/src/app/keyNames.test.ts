import { expect, it } from "vitest";
import { keyNames } from "./keyNames";

it.each([
  ["MacIntel", "⌘ K"],
  ["Linux x86_64", "Ctrl K"],
  ["Win32", "Ctrl K"],
])("on %s, the palette opens with %s", (platform, shown) => {
  expect(keyNames("mod+K", platform).join(" ")).toBe(shown);
});
