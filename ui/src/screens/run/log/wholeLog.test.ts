import { afterEach, expect, it, vi } from "vitest";
import { type LogFilter, STREAMS } from "./logLines";
import { wholeLog } from "./wholeLog";

const ALL: LogFilter = { task: null, streams: new Set(STREAMS), level: null, only: null };

/** A run that prints one more line per request. */
function chatty() {
  const asked: (string | null)[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const after = new URL(request.url).searchParams.get("after");
    asked.push(after);
    const id = `${Number.parseInt(after ?? "8", 10) + 1}-0`;
    const line = { id, ts: 0, task: null, stream: "stdout", text: `line ${id}`, attempt: 1 };
    return Response.json({ run_id: "r", lines: [line], next_after: id, complete: false });
  });
  return asked;
}

afterEach(() => {
  vi.unstubAllGlobals();
});

it("the whole log ends with the newest line of the page", async () => {
  const asked = chatty();
  const texts = await wholeLog("r", ALL, "10-0");
  expect(asked).toEqual([null, "9-0"]);
  expect(texts.join("")).toMatch(/line 9-0\n.*line 10-0\n$/);
});

it("matches have their context, also across pages", async () => {
  chatty();
  const texts = await wholeLog("r", { ...ALL, only: { search: "line 11", context: 1 } }, "14-0");
  const found = texts.join("").match(/line \d+/g);
  expect(found).toEqual(["line 10", "line 11", "line 12"]);
});
