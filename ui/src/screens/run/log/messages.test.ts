import { expect, it } from "vitest";
import { messages } from "./messages";

it("says of an open run only that more may follow: it may wait, or have lost its worker", () => {
  expect(messages.en.logLive).toBe("More lines may follow.");
  expect(messages.ja.logLive).not.toContain("実行中");
});
