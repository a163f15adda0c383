/** A value that lives outside of React: read anywhere, and drawn again where it is used. */
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

/** A browser's storage. Where it is forbidden, even its name throws: it is only named where that is caught. */
type NamedStorage = () => Storage;

/** A store that a browser's storage remembers. Where that is refused, it is remembered until the page ends. */
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
        // Full, or forbidden by the browser's settings: the value still holds for this page.
      }
      store.set(value);
    },
  };
}

/** Forget a value that no code may have read yet. */
export function forgetStored(storage: NamedStorage, key: string): void {
  try {
    storage().removeItem(key);
  } catch {
    // Forbidden: there is nothing in it.
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
