import { describe, expect, it } from "vitest";
import { contentOf, queryOf, requestOf, type SharedView } from "./views";

const content = (text: string) => contentOf(new URLSearchParams(text));

describe("the content of a view", () => {
  it("is the same in whatever way it is written", () => {
    expect(content("q=x&flow=a&sort=updated_at&order=desc&view=mine")).toBe(content("flow=a&q=x"));
    expect(content("status=FAILED&status=RUNNING")).toBe(content("status=RUNNING&status=FAILED"));
    expect(content("columns=flow_name,status,nonsense")).toBe(content("columns=status,flow_name"));
    expect(content("flow=a")).not.toBe(content("flow=b"));
    expect(content("flow=a&sort=duration")).not.toBe(content("flow=a"));
  });

  it("survives the way to the API and back", () => {
    const text =
      "status=FAILED&status=RUNNING&flow=etl&tag=nightly&cause=schedule%3Anightly&updated_after=17.5&q=x" +
      "&since=24h&sort=duration&order=asc&columns=status%2Cparams";
    const stored = { name: "a", ...requestOf(new URLSearchParams(text)) } as unknown as SharedView;
    expect(stored.filter).toMatchObject({ status: ["FAILED", "RUNNING"], updated_after: 17.5, worker: null });
    expect(queryOf(stored).toString()).toBe(content(text));
  });

  it("is everything without filters", () => {
    const stored = { name: "a", ...requestOf(new URLSearchParams("view=a")) } as unknown as SharedView;
    expect(queryOf(stored).toString()).toBe("");
  });
});
