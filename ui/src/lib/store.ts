/** A value outside of React that re-renders its users. */
import { useSyncExternalStore } from "react";
import { parseJson } from "./exactJson";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  subscribe(listener: () => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore<T>(store: Store<T>): T {
  return useSyncExternalStore(store.subscribe, store.get);
}

/** A browser's storage. If it is forbidden, even accessing it throws: access it only inside try. */
type NamedStorage = () => Storage;

/** A store kept in a browser's storage, or in memory if that is not available. */
export function storedValue<T>(
  storage: NamedStorage,
  key: string,
  initial: T,
  valid: (value: unknown) => value is T,
) {
  const store = createStore<T>(read(storage, key, initial, valid));
  return {
    ...store,
    set(value: T) {
      try {
        storage().setItem(key, JSON.stringify(value));
      } catch {
        // Full or forbidden: the value is kept for this page only.
      }
      store.set(value);
    },
    /** Take over what another tab stores. */
    followOtherTabs() {
      addEventListener("storage", (event) => {
        // Without a key: that tab has cleared everything.
        if (event.key === key || event.key === null) store.set(read(storage, key, initial, valid));
      });
    },
  };
}

/** Remove a value that may not have been read yet. */
export function forgetStored(storage: NamedStorage, key: string): void {
  try {
    storage().removeItem(key);
  } catch {
    // Forbidden: it is empty.
  }
}

function read<T>(storage: NamedStorage, key: string, initial: T, valid: (value: unknown) => value is T): T {
  try {
    const kept: unknown = parseJson(storage().getItem(key) ?? "null");
    return valid(kept) ? kept : initial;
  } catch {
    return initial;
  }
}
