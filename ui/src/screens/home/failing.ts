/** The order of failing flows. */
import { countOf } from "../../charts/ends";
import type { Language } from "../../i18n/language";
import type { Overview } from "./warnings";

export type FailingFlow = Overview["failing"][number];
export type FailingOrder = "count" | "rate";

export const failureRate = (flow: FailingFlow): number => flow.failed / countOf(flow);

/** Most first; of the same rate, those with the most failures. */
export function sortedFailing(flows: readonly FailingFlow[], order: FailingOrder): FailingFlow[] {
  const byCount = (a: FailingFlow, b: FailingFlow) =>
    b.failed - a.failed || a.flow_name.localeCompare(b.flow_name);
  return flows.toSorted((a, b) =>
    order === "rate" ? failureRate(b) - failureRate(a) || byCount(a, b) : byCount(a, b),
  );
}

export const percentOf = (flow: FailingFlow, language: Language): string =>
  failureRate(flow).toLocaleString(language, { style: "percent", maximumFractionDigits: 0 });
