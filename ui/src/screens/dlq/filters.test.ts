import { describe, expect, it } from "vitest";
import { spanOf } from "../../ui/timeRanges";
import { apiFilter, chosenFilter, parseTyped } from "./filters";

const of = (query: string) => apiFilter(new URLSearchParams(query), 1_000_000.7);

describe("the URL", () => {
  it("is the filter of the API", () =>
    expect(of("reason=timeout&reason=invalid_job&flow=etl&run_id=9b&q=row+7&seq=3&cursor=9")).toEqual({
      state: "open",
      reason: "timeout,invalid_job",
      flow: "etl",
      run_id: "9b",
      q: "row 7",
    }));
  it("has relative times", () => {
    expect(of("since=1h&state=all")).toEqual({ since: 996_400 });
    expect(of("since=yesterday&state=all")).toEqual({});
    expect(spanOf(new URLSearchParams("since=toString"))).toBeNull();
  });
  it("has open letters unless it says otherwise", () => {
    expect(of("")).toEqual({ state: "open" });
    expect(of("state=closed")).toEqual({ state: "closed" });
    expect(of("state=nonsense")).toEqual({ state: "open" });
  });
});

it("selected letters are named by their numbers", () => {
  expect(chosenFilter([{ seq: 7 }, { seq: 3 }])).toEqual({ seq: "7,3" });
});

describe("typed text", () => {
  it("has words that become filters, and resets the page", () =>
    expect(parseTyped('flow:"my etl" run:9b1d reason:timeout,invalid_job  lost  row')).toEqual({
      flow: "my etl",
      run_id: "9b1d",
      reason: ["timeout", "invalid_job"],
      q: "lost row",
      cursor: null,
    }));
  it("keeps other words as text", () =>
    expect(parseTyped("ValueError: x http://a")).toEqual({ q: "ValueError: x http://a", cursor: null }));
});
