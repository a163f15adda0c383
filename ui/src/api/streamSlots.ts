/** Limits connections: a browser has six per host for all its tabs, and some must stay free for requests.
 *
 * A few streams hold a slot permanently; the others take short turns with one more.
 */
const PLACES = 3;

/** `use` gets a slot of its own, or a turn that it should end soon. */
export async function withSlot<T>(
  signal: AbortSignal,
  use: (kind: "own" | "turn") => Promise<T>,
): Promise<T> {
  // Without https there are no locks: a tab does not know of the others.
  const locks: LockManager | undefined = navigator.locks;
  if (!locks) return use("own");
  for (let place = 0; place < PLACES; place++) {
    const used = await locks.request(
      `pyoco.stream.${place}`,
      { ifAvailable: true },
      async (lock) => lock && { value: await use("own") },
    );
    if (used) return used.value;
  }
  return locks.request("pyoco.stream.turn", { signal }, () => use("turn"));
}
