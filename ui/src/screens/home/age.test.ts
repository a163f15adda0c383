import { expect, it } from "vitest";
import { oldestPendingSec } from "./age";
import type { Queue } from "./warnings";

const queue = (pendingSec: number | null, sec: number) =>
  ({ oldest_pending_sec: pendingSec, oldest_sec: sec }) as Queue;

it("a queue of cancelled runs only has no oldest one", () => {
  const cancelled = queue(null, 1_320);
  expect(oldestPendingSec([cancelled])).toBeNull();
  expect(oldestPendingSec([])).toBeNull();
  expect(oldestPendingSec([cancelled, queue(40, 1_320), queue(9, 9)])).toBe(40);
});
