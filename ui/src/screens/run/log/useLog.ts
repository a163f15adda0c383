/** The output of a run: followed live, or the part around one line. */
import { useEffect, useRef, useState } from "react";
import { api, type Schemas } from "../../../api/client";
import { useEventStream } from "../../../api/eventStream";
import { Problem } from "../../../api/problem";
import { type LoadedLines, type LoadedPart, type LogLine, readable, withMore } from "./logLines";

export interface Log extends LoadedPart, LoadedLines {
  /** Whether these are the last lines of a run that has ended. */
  complete: boolean;
  /** Whether the first lines are still to come. */
  isLoading: boolean;
  problem: Problem | null;
  /** Loads the lines before or after; undefined: there are none, or they come by themselves. */
  earlier?: () => void;
  later?: () => void;
}

/** All lines, live. Rendered once per frame. `isOver`: the run prints no more. */
export function useLiveLog(id: string | null, isOver: boolean): Log {
  const [heard, setHeard] = useState({ lines: [] as readonly LogLine[], leftOut: 0, complete: false });
  const waiting = useRef<LogLine[]>([]);
  const frame = useRef(0);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  const flush = (complete: boolean) => {
    frame.current = 0;
    const more = waiting.current.splice(0);
    setHeard((before) => ({ ...withMore(before, more), complete }));
  };
  const url = id === null ? null : `/runs/${encodeURIComponent(id)}/logs?follow=1`;
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
  const isQuiet = heard.lines.length === 0 && !heard.complete;
  return {
    ...heard,
    isPart: heard.leftOut > 0,
    isLoading: isQuiet && (isOver || stream.state === "connecting"),
    problem: stream.state === "failed" ? (stream.problem ?? null) : null,
  };
}

// Of one request.
const AROUND = 400;
const MORE = 1_000;

interface Part {
  lines: readonly LogLine[];
  /** Null: these are the first lines. */
  before: string | null;
  after: string | null;
  complete: boolean;
}

/** The lines around one, and more of them on request: the rest of a long log is not loaded. */
export function useLogAround(id: string, line: string | null): Log {
  const [part, setPart] = useState<Part | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isLoading, setLoading] = useState(true);
  useEffect(() => {
    if (line === null) return;
    const stop = new AbortController();
    setPart(null);
    read(id, { around: line, limit: AROUND }, stop.signal)
      .then((view) => setPart(partOf(view)))
      .catch((error) => stop.signal.aborted || setProblem(Problem.from(error)))
      .finally(() => stop.signal.aborted || setLoading(false));
    return () => stop.abort();
  }, [id, line]);
  const more = (query: Query, added: (part: Part, view: Schemas["LogsView"]) => Part) => () => {
    if (isLoading) return;
    setLoading(true);
    read(id, query)
      .then((view) => setPart((before) => before && added(before, view)))
      .catch((error) => setProblem(Problem.from(error)))
      .finally(() => setLoading(false));
  };
  const { lines = [], before = null, after = null, complete = false } = part ?? {};
  return {
    lines,
    leftOut: 0,
    isPart: before !== null || !complete,
    complete,
    isLoading: isLoading && part === null,
    problem,
    earlier:
      before === null
        ? undefined
        : more({ before, limit: MORE }, (old, view) => ({
            ...old,
            lines: [...view.lines.map(readable), ...old.lines],
            before: view.previous_before ?? null,
          })),
    later:
      part === null || complete
        ? undefined
        : more({ ...(after !== null && { after }), limit: MORE }, (old, view) => ({
            ...old,
            lines: [...old.lines, ...view.lines.map(readable)],
            after: view.next_after ?? old.after,
            complete: view.complete,
          })),
  };
}

interface Query {
  around?: string;
  before?: string;
  after?: string;
  limit: number;
}

async function read(id: string, query: Query, signal?: AbortSignal): Promise<Schemas["LogsView"]> {
  const { data } = await api.GET("/runs/{run_id}/logs", { params: { path: { run_id: id }, query }, signal });
  return data as Schemas["LogsView"];
}

const partOf = (view: Schemas["LogsView"]): Part => ({
  lines: view.lines.map(readable),
  before: view.previous_before ?? null,
  after: view.next_after ?? null,
  complete: view.complete,
});
