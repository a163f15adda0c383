import { expect, it } from "vitest";
import { fileSize } from "./size";

it.each([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1.0 kB"],
  [18_211, "18.2 kB"],
  [204_800_000, "205 MB"],
  [5_200_000_000_000, "5200 GB"],
])("%d bytes are %s", (bytes, text) => expect(fileSize(bytes)).toBe(text));
