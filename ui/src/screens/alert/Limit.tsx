/** When an alert fires. */
import { useMessages } from "../../i18n/messages";
import { interval } from "../../i18n/time";
import { Fact } from "../../ui/FactList";
import type { Alert } from "../alerts/alertApi";
import { messages } from "./messages";

export function Limit({ alert: { rule } }: { alert: Alert }) {
  const t = useMessages(messages);
  const window = interval(rule.window_sec ?? 0);
  if (rule.condition === "run_failed") return null;
  return (
    <Fact name={t("limit")}>
      {rule.condition === "failures" && t("limit.failures", { count: rule.count ?? 0, window })}
      {rule.condition === "failure_rate" &&
        t("limit.failure_rate", { percent: rule.percent ?? 0, window, runs: rule.min_runs ?? 0 })}
      {rule.after_sec !== null && t("limit.after", { time: interval(rule.after_sec) })}
    </Fact>
  );
}
