import { afterEach, expect, it, vi } from "vitest";
import { withSlot } from "./streamSlots";

/** A minimal implementation of the browser's locks. */
function fakeLocks() {
  const held = new Map<string, Promise<unknown>>();
  return {
    async request(
      name: string,
      { ifAvailable }: { ifAvailable?: boolean },
      use: (lock: unknown) => Promise<unknown>,
    ) {
      if (ifAvailable && held.has(name)) return use(null);
      while (held.has(name)) await held.get(name);
      const using = use({ name }).finally(() => held.delete(name));
      held.set(name, using);
      return using;
    },
  };
}

afterEach(() => vi.unstubAllGlobals());

it("gives three streams a slot, and the others turns", async () => {
  vi.stubGlobal("navigator", { locks: fakeLocks() });
  const { signal } = new AbortController();
  const got: string[] = [];
  const leave: (() => void)[] = [];
  const stay = (kind: string) => {
    got.push(kind);
    return new Promise<void>((resolve) => leave.push(resolve));
  };
  const all = [1, 2, 3, 4, 5].map(() => withSlot(signal, stay));
  await vi.waitFor(() => expect(got).toEqual(["own", "own", "own", "turn"]));
  leave[3]?.();
  await vi.waitFor(() => expect(got).toEqual(["own", "own", "own", "turn", "turn"]));
  leave[0]?.();
  await all[0];
  const next = withSlot(signal, stay);
  await vi.waitFor(() => expect(got.at(-1)).toBe("own"));
  for (const each of leave) each();
  await Promise.all([...all, next]);
});

it("works without locks", async () => {
  vi.stubGlobal("navigator", {});
  expect(await withSlot(new AbortController().signal, async (kind) => kind)).toBe("own");
});
