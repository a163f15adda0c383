/** The metrics screen: statistics of runs over a period, and what this gateway measures now. */
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Segments } from "../../ui/controls";
import { Page } from "../../ui/Page";
import { GatewayMetrics } from "./GatewayMetrics";
import { messages } from "./messages";
import { RunStatistics } from "./runs/RunStatistics";

const VIEWS = ["runs", "gateway"] as const;

export default function MetricsScreen() {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const view = query.get("view") === "gateway" ? "gateway" : "runs";
  return (
    <Page
      title={t("title")}
      actions={
        <Segments
          label={t("view")}
          value={view}
          options={VIEWS.map((value) => ({ value, label: t(`view.${value}`) }))}
          onChange={(value) => change({ view: value === "runs" ? null : value }, { replace: true })}
        />
      }
    >
      {view === "gateway" ? <GatewayMetrics /> : <RunStatistics />}
    </Page>
  );
}
