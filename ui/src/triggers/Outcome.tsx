/** What became of an event, a delivery or a retry job: a word with its colour. */
import { joined } from "../ui/controls";
import styles from "./Triggers.module.css";

const TONES: Record<string, string> = {
  success: "good",
  started: "good",
  succeeded: "good",
  rejected: "bad",
  refused: "bad",
  failed: "bad",
  escalated: "bad",
  retrying: "busy",
  pending: "busy",
};

export const toneOf = (outcome: string): string => styles[TONES[outcome] ?? "calm"] ?? "";

export function Outcome({ outcome, label }: { outcome: string; label: string }) {
  return (
    <span className={joined(styles.outcome, toneOf(outcome))} data-outcome={outcome}>
      {label}
    </span>
  );
}
