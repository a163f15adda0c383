/** `j` and `k` move the focus between the rows of a list, so that Enter works as usual. */
import { type RefObject, useRef } from "react";
import { type StepLabels, stepped, useStepKeys } from "./stepKeys";

/** The list's ref. Each of its rows has one control with `data-row`. */
export function useRowKeys<T extends HTMLElement>(labels: StepLabels): RefObject<T | null> {
  const list = useRef<T>(null);
  const move = (step: number) => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    rows[stepped(at, step, rows.length)]?.focus();
  };
  useStepKeys(move, labels);
  return list;
}
