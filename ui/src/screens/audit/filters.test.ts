import { describe, expect, it } from "vitest";
import { apiFilter, parseTyped } from "./filters";

describe("the filters of the audit log", () => {
  it("takes typed words, and the rest as a target", () => {
    expect(parseTyped('actor:"Ann B" action:run.cancel run:42 nightly')).toEqual({
      actor: "Ann B",
      action: "run.cancel",
      run_id: "42",
      target: "nightly",
      cursor: null,
    });
    expect(parseTyped("  ")).toEqual({ cursor: null });
    expect(parseTyped("flow:etl")).toEqual({ target: "flow:etl", cursor: null });
  });

  it("sends only what is set, with an absolute time", () => {
    expect(apiFilter(new URLSearchParams("actor=ann&since=1h&other=x"), 10_000.5)).toEqual({
      actor: "ann",
      since: 6_400,
    });
    expect(apiFilter(new URLSearchParams("since=2y"), 0)).toEqual({});
  });
});
