import { describe, expect, it } from "vitest";
import { messages as home } from "../screens/home/messages";
import { messages as inbox } from "../screens/inbox/messages";
import { messages as submit } from "../screens/submit/messages";

/** Texts that two screens must share, or that were agreed upon. */
describe("the wording", () => {
  it("of an empty inbox is the same on both screens, in both languages", () => {
    expect(inbox.en.emptyTitle).toBe("No open questions");
    expect(home.en.noWaits).toBe(inbox.en.emptyTitle);
    expect(home.ja.noWaits).toBe(inbox.ja.emptyTitle);
  });

  it("counts what is wrong in a flow.yaml as problems", () => {
    expect(submit.en.problemCount).toEqual({ one: "{count} problem", other: "{count} problems" });
  });
});
