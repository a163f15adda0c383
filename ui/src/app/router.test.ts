import { describe, expect, it } from "vitest";
import { href, match, parseHash, patched, pathTo } from "./router";
import { findScreen } from "./screens";

describe("a URL", () => {
  it("has a path and a query", () => {
    const place = parseHash("#/runs?status=FAILED&q=a%3Fb");
    expect(place.path).toBe("/runs");
    expect(place.query.get("q")).toBe("a?b");
    expect(parseHash("").path).toBe("/");
  });

  it("is written as it is parsed", () => {
    const path = pathTo("/runs/:id", { id: "a/b" });
    expect(path).toBe("/runs/a%2Fb");
    expect(match("/runs/:id", path)).toEqual({ id: "a/b" });
    expect(href("/runs", { status: ["A", "B"], q: null })).toBe("#/runs?status=A&status=B");
  });

  it("keeps unchanged parameters", () => {
    expect(patched(new URLSearchParams("a=1&b=2"), { b: null, c: "3" }).toString()).toBe("a=1&c=3");
  });

  it("matches a screen, or none", () => {
    expect(findScreen("/waits/x.1")?.params).toEqual({ id: "x.1" });
    expect(findScreen("/nowhere")).toBeNull();
    expect(findScreen("/runs/%")).toBeNull();
  });
});
