import { describe, expect, it } from "vitest";
import { exactTime } from "../../i18n/time";
import { apiFilter, isMoment, orderingOf, parseTyped } from "./filters";

describe("what is typed into the search field", () => {
  it("becomes filters and text", () => {
    expect(parseTyped('flow:etl  bad row tag:"a b" status:failed,pending')).toEqual({
      flow: "etl",
      tag: "a b",
      status: ["FAILED", "PENDING"],
      q: "bad row",
    });
  });

  it("keeps a colon that is no filter", () => {
    expect(parseTyped("ValueError: x:1")).toEqual({ q: "ValueError: x:1" });
  });
});

describe("the address", () => {
  it("is turned into the filters of the API, and nothing else", () => {
    const query = new URLSearchParams("status=FAILED&status=PENDING&q=x&sort=duration&since=1h&columns=a");
    expect(apiFilter(query, 10_000.7).toString()).toBe("status=FAILED&status=PENDING&q=x&updated_after=6400");
  });

  it("says the order, if it is one", () => {
    expect(orderingOf(new URLSearchParams("sort=duration&order=asc"))).toEqual({
      sort: "duration",
      ascending: true,
    });
    expect(orderingOf(new URLSearchParams("sort=nonsense"))).toEqual({
      sort: "updated_at",
      ascending: false,
    });
  });

  it("finds a label as a tag", () => {
    expect(parseTyped("label:nightly x")).toEqual({ tag: "nightly", q: "x" });
  });
});

describe("a time of a link or a view", () => {
  it.each(["0", "1760000000.5", "8640000000000"])("%s can be shown", (text) => {
    expect(isMoment(text)).toBe(true);
    expect(exactTime(Number(text), "en")).not.toBe("");
  });
  it.each(["abc", "1e300", "8640000000001", "Infinity"])("%s is shown as it is", (text) => {
    expect(isMoment(text)).toBe(false);
  });
});
