/** `j` and `k` move the focus between the rows of a list, so that Enter works as usual. */
import { type RefObject, useRef } from "react";
import { useShortcut } from "../app/shortcuts";

/** The list's ref. Each of its rows has one control with `data-row`. */
export function useRowKeys<T extends HTMLElement>(labels: {
  next: string;
  previous: string;
}): RefObject<T | null> {
  const list = useRef<T>(null);
  const move = (step: number) => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    rows[Math.min(Math.max(at + step, 0), rows.length - 1)]?.focus();
  };
  useShortcut("j", () => move(1), labels.next);
  useShortcut("k", () => move(-1), labels.previous);
  return list;
}
