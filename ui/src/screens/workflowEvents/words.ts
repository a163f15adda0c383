/** The words of events; one that this page does not know is shown as it is. */
import { useMessages } from "../../i18n/messages";
import { messages } from "./messages";

const STATUSES = ["success", "skipped", "rejected", "failed"] as const;
const REASONS = [
  "auth",
  "validation",
  "template_not_found",
  "template_conflict",
  "run_conflict",
  "unsupported_action",
  "infra",
  "duplicate",
] as const;
const ADVICES = ["do_not_retry", "retry_after_fix", "retry_with_backoff"] as const;
export const JOBS = ["pending", "retrying", "succeeded", "discarded", "escalated"] as const;

export function useEventWords() {
  const t = useMessages(messages);
  const known = <T extends string>(words: readonly T[], word: string) => words.find((each) => each === word);
  return {
    status: (word: string): string => {
      const found = known(STATUSES, word);
      return found ? t(`status.${found}`) : word;
    },
    reason: (word: string): string => {
      const found = known(REASONS, word);
      return found ? t(`reason.${found}`) : word;
    },
    advice: (word: string): string => {
      const found = known(ADVICES, word);
      return found ? t(`advice.${found}`) : word;
    },
    job: (word: string): string => {
      const found = known(JOBS, word);
      return found ? t(`job.${found}`) : word;
    },
  };
}
