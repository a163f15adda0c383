/** Ended runs over time: one bar per interval, linked to its runs. */
import { useState } from "react";
import { countOf, sumOf } from "../../charts/ends";
import { endEntries, Legend } from "../../charts/Legend";
import { TimeChart } from "../../charts/TimeChart";
import { intervalLabel, roundedUp } from "../../charts/timeAxis";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { Card } from "../../ui/Page";
import { endedHref, intervalHref } from "./chart";
import { messages } from "./messages";
import type { Overview } from "./warnings";

export function EndedChart({ overview }: { overview: Overview }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const { ended, stretch_sec: intervalSec, window } = overview;
  // The hovered or focused bar, else all.
  const [pointedAt, setPointedAt] = useState<number | null>(null);
  const interval = ended.find(({ at }) => at === pointedAt);
  const number = (count: number) => count.toLocaleString(language);
  return (
    <Card
      title={t("chart")}
      actions={
        <Legend
          time={interval ? intervalLabel(interval.at, intervalSec, language) : t(`within.${window}`)}
          entries={endEntries(
            interval ?? sumOf(ended),
            (end) => t(`end.${end}`),
            number,
            (end) => (interval ? intervalHref(interval.at, intervalSec, end) : endedHref(window, end)),
          )}
        />
      }
    >
      <TimeChart
        label={t("chartLabel")}
        intervals={ended.map((each) => ({
          at: each.at,
          href: intervalHref(each.at, intervalSec),
          label: t("barLabel", { ...each, time: intervalLabel(each.at, intervalSec, language) }),
          ended: each,
        }))}
        intervalSec={intervalSec}
        top={roundedUp(Math.max(...ended.map(countOf)))}
        mark={number}
        empty={ended.every((each) => countOf(each) === 0) && t("quiet", { within: t(`within.${window}`) })}
        onPoint={setPointedAt}
      />
    </Card>
  );
}
