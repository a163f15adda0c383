/** `j` and `k` go to the next and the previous item of a list. */
import { useShortcut } from "../app/shortcuts";

export interface StepLabels {
  next: string;
  previous: string;
}

/** Calls `onStep` with 1 or -1. */
export function useStepKeys(onStep: (step: number) => void, labels: StepLabels): void {
  useShortcut("j", () => onStep(1), labels.next);
  useShortcut("k", () => onStep(-1), labels.previous);
}

/** The position a step further, within the list; from -1, which is no item, the first. -1 if the list is empty. */
export const stepped = (at: number, step: number, length: number): number =>
  Math.min(Math.max(at + step, 0), length - 1);
