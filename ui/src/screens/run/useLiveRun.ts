/** One run, followed to its end. */
import { useState } from "react";
import { useEventStream } from "../../api/eventStream";
import type { Problem } from "../../api/problem";
import { isTerminal } from "../../ui/status";
import type { Run } from "./run";

export interface LiveRun {
  run: Run | null;
  problem: Problem | null;
  removed: boolean;
}

export function useLiveRun(id: string): LiveRun {
  const [run, setRun] = useState<Run | null>(null);
  const [removed, setRemoved] = useState(false);
  const url = `/runs/${encodeURIComponent(id)}/watch?include=records`;
  const stream = useEventStream(url, ({ event, data }) => {
    if (event === "removed") {
      setRemoved(true);
      return "end";
    }
    if (event !== "snapshot") return undefined;
    const { snapshot } = data as { snapshot: Run };
    setRun(snapshot);
    return isTerminal(snapshot.status) ? "end" : undefined;
  });
  return {
    run,
    removed,
    problem: stream.state === "failed" ? (stream.problem ?? null) : null,
  };
}
