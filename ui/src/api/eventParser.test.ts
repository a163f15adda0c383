import { describe, expect, it } from "vitest";
import { eventParser } from "./eventParser";

describe("an event stream", () => {
  it("is parsed from any chunks", () => {
    const text =
      'id: 7\nevent: line\ndata: {"text":"日本"}\n\n: keepalive\n\nevent: end\ndata: {"a":\ndata: 1}\n\n';
    for (const size of [1, 3, 10, text.length]) {
      const parse = eventParser();
      const events = [];
      for (let at = 0; at < text.length; at += size) events.push(...parse(text.slice(at, at + size)));
      expect(events).toEqual([
        { id: "7", event: "line", data: { text: "日本" } },
        { id: undefined, event: "end", data: { a: 1 } },
      ]);
    }
  });

  it("keeps an incomplete event", () => {
    const parse = eventParser();
    expect(parse("event: a\ndata: 1\n")).toEqual([]);
    expect(parse("\n")).toEqual([{ id: undefined, event: "a", data: 1 }]);
  });
});
