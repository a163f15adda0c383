import { describe, expect, it, vi } from "vitest";
import { fullPage, type Letter, PAGE } from "./letters";

const some = (count: number) => Array.from({ length: count }, (_, seq) => ({ seq }) as Letter);

describe("a page", () => {
  it("continues after responses with few or no letters", async () => {
    const ask = vi
      .fn()
      .mockResolvedValueOnce({ items: [], next_cursor: "90" })
      .mockResolvedValueOnce({ items: some(2), next_cursor: "80" })
      .mockResolvedValueOnce({ items: some(1), next_cursor: null });
    const page = await fullPage(ask, "100");
    expect(ask.mock.calls).toEqual([
      ["100", PAGE],
      ["90", PAGE],
      ["80", PAGE - 2],
    ]);
    expect(page.items).toHaveLength(3);
    expect(page.next_cursor).toBeNull();
  });

  it("ends when it is full", async () => {
    const ask = vi.fn().mockResolvedValue({ items: some(PAGE), next_cursor: "7" });
    expect((await fullPage(ask, null)).next_cursor).toBe("7");
    expect(ask).toHaveBeenCalledTimes(1);
  });

  it("ends after a while, and can be continued", async () => {
    const ask = vi.fn().mockResolvedValue({ items: [], next_cursor: "7" });
    expect(await fullPage(ask, null)).toEqual({ items: [], next_cursor: "7" });
    expect(ask.mock.calls.length).toBeLessThan(50);
  });
});
