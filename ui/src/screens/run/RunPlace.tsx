/** Where a run is: the list that one came from, its flow, and the runs before and after it. */
import { ChevronLeft, ChevronRight } from "lucide-react";
import { href, navigate, pathTo } from "../../app/router";
import { useShortcut } from "../../app/shortcuts";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { Breadcrumbs } from "../../ui/Breadcrumbs";
import { IconButton } from "../../ui/controls";
import { listedRuns, neighboursOf } from "../runs/listedRuns";
import styles from "./RunPlace.module.css";
import type { Run } from "./run";
import { stepMessages } from "./stepMessages";

export function RunPlace({ run }: { run: Run }) {
  const t = useMessages(stepMessages);
  const { query } = useStore(listedRuns);
  return (
    <Breadcrumbs
      crumbs={[
        // With the filter that it was left with.
        { text: t("runs"), href: href("/runs", new URLSearchParams(query)) },
        { text: run.flow_name, href: href("/runs", { flow: run.flow_name }) },
        { text: run.run_id.slice(0, 8) },
      ]}
    />
  );
}

/** To the previous and the next run, in the order of the list. */
export function RunSteps({ id }: { id: string }) {
  const t = useMessages(stepMessages);
  const found = neighboursOf(id, useStore(listedRuns));
  // Back leads to the list, not through all the runs that were looked at.
  const open = (run: string | null | undefined) =>
    run && navigate(href(pathTo("/runs/:id", { id: run })), { replace: true });
  useShortcut("shift+j", () => open(found?.next), t("next"));
  useShortcut("shift+k", () => open(found?.previous), t("previous"));
  if (!found) return null;
  return (
    <span className={styles.steps}>
      <IconButton
        label={t("previous")}
        icon={<ChevronLeft size={15} />}
        disabled={!found.previous}
        onClick={() => open(found.previous)}
      />
      <span>{t("place", { place: found.place, count: found.count })}</span>
      <IconButton
        label={t("next")}
        icon={<ChevronRight size={15} />}
        disabled={!found.next}
        onClick={() => open(found.next)}
      />
    </span>
  );
}
