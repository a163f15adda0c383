/** A link to the comparison of two selected runs. */
import { GitCompareArrows } from "lucide-react";
import { useMessages } from "../../i18n/messages";
import { ButtonLink } from "../../ui/controls";
import { compareHref } from "./compareHref";
import { messages } from "./messages";

interface Selected {
  run_id: string;
  submitted_at: number | null;
}

/** Nothing unless there are two. The earlier one is on the left. */
export function CompareTwo({ runs }: { runs: readonly Selected[] }) {
  const t = useMessages(messages);
  const [first, second] = [...runs].sort((a, b) => (a.submitted_at ?? 0) - (b.submitted_at ?? 0));
  if (!first || !second || runs.length !== 2) return null;
  return (
    <ButtonLink href={compareHref(first.run_id, second.run_id)}>
      <GitCompareArrows size={14} aria-hidden />
      {t("compareTwo")}
    </ButtonLink>
  );
}
