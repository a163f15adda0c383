/** What decides something does nothing in the first second after it has appeared.
 *
 * A second click, or a key that is held, was meant for what stood there before.
 */
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";

/** How long a click or a key counts as an accident. */
export const ACCIDENT_GUARD_MS = 1_000;

const Armed = createContext(true);

/** Whether the buttons here may decide. */
export const useIsArmed = (): boolean => useContext(Armed);

/** Arms its content a second after it has appeared; a `key` makes other content appear anew. */
export function Arming({ children }: { children: ReactNode }) {
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setArmed(true), ACCIDENT_GUARD_MS);
    return () => clearTimeout(timer);
  }, []);
  return <Armed value={armed}>{children}</Armed>;
}
