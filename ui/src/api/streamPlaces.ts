/** Who may hold a connection: a browser has six to a gateway for all its tabs, and some must stay free for requests.
 *
 * A few streams keep theirs for as long as they like; the others take turns with one more, a moment each.
 */
const PLACES = 3;

/** `use` gets a place of its own, or a turn, in which it should not stay. */
export async function withPlace<T>(
  signal: AbortSignal,
  use: (kind: "own" | "turn") => Promise<T>,
): Promise<T> {
  // Without https, a browser has no locks: a tab then knows nothing of the others.
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
