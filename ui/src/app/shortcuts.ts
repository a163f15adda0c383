/** Keyboard shortcuts: one listener, and components that register their keys.
 *
 * A key is written as `j`, `shift+x`, `mod+k` (Ctrl, or Cmd on a Mac), or as a sequence, `g r`.
 */
import { useEffectEvent, useLayoutEffect } from "react";
import { createStore, type Store } from "../lib/store";

export interface Shortcut {
  keys: string;
  /** For the list of shortcuts; without it the key is not listed. */
  label?: string;
  run: () => void;
}

const SEQUENCE_MS = 1_200;
/** Opens and closes the command palette, everywhere. */
const EVERYWHERE = "mod+k";
const active: Store<readonly Shortcut[]> = createStore<readonly Shortcut[]>([]);
let begun = "";
let begunAt = 0;

export const activeShortcuts = active;

/** Register a key while the component is mounted; the last one wins. */
export function useShortcut(keys: string, run: () => void, label?: string): void {
  const handle = useEffectEvent(run);
  // Before it is painted: a key that is pressed for what is visible must not be lost.
  useLayoutEffect(() => {
    const shortcut = { keys, label, run: () => handle() };
    active.set([shortcut, ...active.get()]);
    return () => active.set(active.get().filter((each) => each !== shortcut));
  }, [keys, label]);
}

/** Several keys at once, such as those of the navigation. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  useLayoutEffect(() => {
    active.set([...active.get(), ...shortcuts]);
    return () => active.set(active.get().filter((each) => !shortcuts.includes(each)));
  }, [shortcuts]);
}

export function nameOf(event: KeyboardEvent): string {
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push("mod");
  if (event.altKey) parts.push("alt");
  // For a letter, shift is part of the name; for a symbol such as `?`, it is part of the symbol.
  if (event.shiftKey && (/^[a-z]$/i.test(event.key) || event.key.length > 1)) parts.push("shift");
  parts.push(event.key.length === 1 ? event.key.toLowerCase() : event.key);
  return parts.join("+");
}

function onKeyDown(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const name = nameOf(event);
  if (name !== EVERYWHERE && (isTyping(event.target) || isBehindSomething())) return;
  if (isPressing(event)) return;
  const sequence = event.timeStamp - begunAt < SEQUENCE_MS && begun ? `${begun} ${name}` : name;
  begun = "";
  const taken = active.get();
  const found = taken.find(({ keys }) => keys === sequence) ?? taken.find(({ keys }) => keys === name);
  if (found) {
    event.preventDefault();
    found.run();
  } else if (taken.some(({ keys }) => keys.startsWith(`${name} `))) {
    begun = name;
    begunAt = event.timeStamp;
  }
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const isText = target instanceof HTMLInputElement && !["checkbox", "radio", "button"].includes(target.type);
  return isText || target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Enter and Space belong to the focused link or button. */
function isPressing({ key, target }: KeyboardEvent): boolean {
  if (key !== "Enter" && key !== " ") return false;
  return target instanceof Element && target.closest("a, button, summary, [role=tab]") !== null;
}

const isBehindSomething = () => document.querySelector("dialog[open], [role=menu]") !== null;

document.addEventListener("keydown", onKeyDown);
