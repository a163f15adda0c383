import { describe, expect, it } from "vitest";
import { apiQuery, isFiltered, parseTyped, stateOf } from "./filters";

const query = (text: string) => new URLSearchParams(text);

describe("the filters of schedules", () => {
  it("are typed", () => {
    expect(parseTyped('flow:"daily sales" tag:gpu  night ')).toEqual({
      cursor: null,
      flow: "daily sales",
      tag: "gpu",
      q: "night",
    });
    expect(parseTyped("")).toEqual({ cursor: null, q: null });
  });

  it("go to the API", () => {
    expect(apiQuery(query("q=a&state=paused&cursor=c&seq=1")).toString()).toBe(
      "limit=100&q=a&cursor=c&paused=true",
    );
    expect(apiQuery(query("state=active&flow=etl")).toString()).toBe("limit=100&flow=etl&paused=false");
  });

  it("ignore an unknown state", () => {
    expect(stateOf(query("state=broken"))).toBe("any");
    expect(isFiltered(query("state=broken"))).toBe(false);
    expect(isFiltered(query("tag=gpu"))).toBe(true);
  });
});
