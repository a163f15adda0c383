/** Whether the window is as narrow as a phone, or has room for more columns than usual. */
import { useSyncExternalStore } from "react";

function mediaHook(query: string): () => boolean {
  const media = matchMedia(query);
  const subscribe = (listener: () => void) => {
    media.addEventListener("change", listener);
    return () => media.removeEventListener("change", listener);
  };
  return () => useSyncExternalStore(subscribe, () => media.matches);
}

export const useNarrow = mediaHook("(max-width: 760px)");
export const useWide = mediaHook("(min-width: 1400px)");
