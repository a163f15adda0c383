/** The graph of a flow, of which no task has been executed: without states. */
import { useMemo, useState } from "react";
import { api, type Schemas } from "../../../api/client";
import { useRead } from "../../../api/queries";
import { useMessages } from "../../../i18n/messages";
import { UserText } from "../../../ui/UserText";
import type { Run, Task } from "../run";
import styles from "./Flow.module.css";
import { FlowCard } from "./FlowCard";
import { messages } from "./messages";

const EVERY_MS = 10_000;

interface PlanCardProps {
  tasks: readonly Schemas["FlowTask"][];
  note?: string;
}

export function PlanCard({ tasks, note }: PlanCardProps) {
  const [selected, select] = useState<string | null>(null);
  const planned = useMemo(
    () => tasks.map(({ name, after }): Task => ({ name, state: "PLANNED", record: { after: [...after] } })),
    [tasks],
  );
  const chosen = tasks.find(({ name }) => name === selected);
  return (
    <FlowCard tasks={planned} selected={selected} onSelect={select}>
      {chosen?.description ? (
        <p className={styles.note}>
          <strong>
            <UserText text={chosen.name} />
          </strong>{" "}
          <UserText text={chosen.description} />
        </p>
      ) : (
        note && <p className={styles.note}>{note}</p>
      )}
    </FlowCard>
  );
}

/** What a run that has not started is going to execute; nothing where nobody knows it. */
export function PlanOfRun({ run }: { run: Run }) {
  const t = useMessages(messages);
  const { data } = useRead(
    ["run-graph", run.run_id],
    (signal) => api.GET("/runs/{run_id}/graph", { params: { path: { run_id: run.run_id } }, signal }),
    // Another worker may have another version of it; a flow.yaml stays as it is.
    { every: run.workflow_yaml_sha256 ? undefined : EVERY_MS },
  );
  if (!data?.source || data.tasks.length === 0) return null;
  return <PlanCard tasks={data.tasks} note={t(`planned.${data.source}`)} />;
}
