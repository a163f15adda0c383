/** What the filter field suggests: flows of the catalogue and of the index, and what the loaded runs have. */
import { useRead } from "../../api/queries";
import { readFlows } from "../../flows/flowApi";
import { CAUSES } from "../../ui/cause";
import { RUN_STATUSES } from "../../ui/status";
import type { KnownValues } from "./completions";
import type { Run } from "./runList";

const MOST_FLOWS = 1000;

/** Collected when it is called; the flows are read once the field was `asked`. */
export function useKnownValues(rows: ReadonlyMap<string, Run>, asked: boolean): () => KnownValues {
  const { data } = useRead(
    ["flows", "names"],
    // Those that workers have, and those that have runs.
    (signal) => readFlows({ limit: MOST_FLOWS }, signal),
    { enabled: asked },
  );
  return () => {
    const runs = [...rows.values()];
    return {
      flow: [...(data?.flows ?? []).map(({ name }) => name), ...runs.map(({ flow_name }) => flow_name)],
      status: RUN_STATUSES,
      tag: runs.flatMap(({ tag, tags }) => [tag, ...tags]),
      label: runs.flatMap(({ tag, tags }) => tags.filter((each) => each !== tag)),
      worker: runs.flatMap(({ worker_id }) => worker_id ?? []),
      cause: [...CAUSES, ...runs.flatMap(({ cause }) => (cause?.id ? `${cause.kind}:${cause.id}` : []))],
    };
  };
}
