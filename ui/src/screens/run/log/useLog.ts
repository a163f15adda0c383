/** All output of a run, live. Rendered once per frame. */
import { useEffect, useRef, useState } from "react";
import { useEventStream } from "../../../api/eventStream";
import type { Problem } from "../../../api/problem";
import { type LoadedLines, type LogLine, readable, withMore } from "./logLines";

export interface Log extends LoadedLines {
  /** Whether the log is complete. */
  complete: boolean;
  problem: Problem | null;
}

export function useLog(id: string): Log {
  const [heard, setHeard] = useState<Omit<Log, "problem">>({ lines: [], leftOut: 0, complete: false });
  const waiting = useRef<LogLine[]>([]);
  const frame = useRef(0);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  const flush = (complete: boolean) => {
    frame.current = 0;
    const more = waiting.current.splice(0);
    setHeard((before) => ({ ...withMore(before, more), complete }));
  };
  const url = `/runs/${encodeURIComponent(id)}/logs?follow=1`;
  const stream = useEventStream(url, ({ event, data }) => {
    if (event === "end") {
      cancelAnimationFrame(frame.current);
      flush(true);
      return "end";
    }
    if (event !== "line") return undefined;
    waiting.current.push(readable(data as LogLine));
    frame.current ||= requestAnimationFrame(() => flush(false));
    return undefined;
  });
  return { ...heard, problem: stream.state === "failed" ? (stream.problem ?? null) : null };
}
