/** How runs went in a period, beside the period before: figures, charts, flows and tags. */

import { useQueryState } from "../../../app/router";
import type { OnlyRuns } from "../../../charts/runLinks";
import { useMessages } from "../../../i18n/messages";
import { Segments } from "../../../ui/controls";
import { Loading, ProblemBox } from "../../../ui/feedback";
import { SelectField } from "../../../ui/fields";
import { ComparisonTables } from "./ComparisonTables";
import { PERIODS, type Period, type Statistics } from "./compare";
import { messages } from "./messages";
import { PeriodCharts } from "./PeriodCharts";
import { PeriodFigures } from "./PeriodFigures";
import styles from "./Runs.module.css";
import { useStatistics } from "./useStatistics";
import { ValueTable } from "./ValueTable";

const periodOf = (query: URLSearchParams): Period =>
  PERIODS.find((each) => each === query.get("period")) ?? "24h";

export function RunStatistics() {
  const [query] = useQueryState();
  const period = periodOf(query);
  const only: OnlyRuns = { flow: query.get("flow") || undefined, tag: query.get("tag") || undefined };
  const { statistics, all } = useStatistics(period, only);
  const { data, error, refetch } = statistics;
  return (
    <div className={styles.runs}>
      <Selection period={period} only={only} all={all} />
      {error && <ProblemBox problem={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <>
          <PeriodFigures statistics={data} only={only} />
          <PeriodCharts statistics={data} only={only} />
          <ComparisonTables statistics={data} only={only} />
          <ValueTable statistics={data} only={only} />
        </>
      )}
    </div>
  );
}

interface SelectionProps {
  period: Period;
  only: OnlyRuns;
  all: Statistics | undefined;
}

function Selection({ period, only, all }: SelectionProps) {
  const t = useMessages(messages);
  const [, change] = useQueryState();
  const flows = all?.flows.map(({ flow_name: name }) => name) ?? [];
  const tags = all?.tags.map(({ tag }) => tag) ?? [];
  return (
    <search className={styles.selection}>
      <Segments
        label={t("period")}
        value={period}
        options={PERIODS.map((value) => ({ value, label: t(`period.${value}`) }))}
        onChange={(value) => change({ period: value === "24h" ? null : value }, { replace: true })}
      />
      <Choice
        label={t("flow")}
        all={t("allFlows")}
        value={only.flow}
        names={flows}
        onChange={(flow) => change({ flow })}
      />
      <Choice
        label={t("tag")}
        all={t("allTags")}
        value={only.tag}
        names={tags}
        onChange={(tag) => change({ tag })}
      />
    </search>
  );
}

interface ChoiceProps {
  label: string;
  /** The text of no choice. */
  all: string;
  value: string | undefined;
  names: readonly string[];
  onChange: (name: string | null) => void;
}

function Choice({ label, all, value, names, onChange }: ChoiceProps) {
  // One without runs in this period stays selected.
  const options = value && !names.includes(value) ? [value, ...names] : names;
  return (
    <SelectField
      label={label}
      none={all}
      options={options.toSorted()}
      text={(name) => name}
      value={value ?? ""}
      onChange={(name) => onChange(name || null)}
    />
  );
}
