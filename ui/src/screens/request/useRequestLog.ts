/** The log of one run over the WebSocket: replayed from the start by each connection, then followed. */
import { useEffect, useEffectEvent, useState } from "react";
import { socketProtocols } from "../../api/client";
import { type LoadedLines, type LogLine, readable, withMore } from "../run/log/logLines";

interface LogEvent {
  type: "LOG" | "PHASE" | "STATUS" | "DONE";
  ts: string;
  line?: string;
}
export interface RequestLog extends LoadedLines {
  /** Nothing more will come. */
  complete: boolean;
  /** Whether a connection is open, or will be tried again. */
  isConnected: boolean;
}

const NOTHING: RequestLog = { lines: [], leftOut: 0, complete: false, isConnected: true };
const MARK = /^\[(STEP|COMMIT|TEST)\]/;
const AGAIN_MS = [500, 1_000, 2_000, 5_000] as const;

/** `onChange`: the status, the phase or a step is another one. */
export function useRequestLog(id: string, runId: string, onChange: () => void): RequestLog {
  const [log, setLog] = useState(NOTHING);
  const changed = useEffectEvent(onChange);
  useEffect(() => {
    let failures = 0;
    let timer: ReturnType<typeof setTimeout>;
    let close = connect();
    function connect(): () => void {
      const socket = new WebSocket(address(id, runId), socketProtocols());
      let frame = 0;
      let count = 0;
      let isDone = false;
      let isChanged = false;
      let fresh: LogLine[] = [];
      const flush = () => {
        frame = 0;
        const more = fresh;
        if (isChanged) changed();
        isChanged = false;
        // Until the first line of this connection, those of the one before are shown.
        const isFirst = count > 0 && count === more.length;
        fresh = [];
        setLog((before) => ({
          ...withMore(isFirst ? NOTHING : before, more),
          complete: isDone,
          isConnected: true,
        }));
      };
      socket.onmessage = ({ data }) => {
        const event = JSON.parse(String(data)) as LogEvent;
        failures = 0;
        if (event.type === "LOG") {
          fresh.push(lineOf(event, count));
          count += 1;
        }
        isChanged ||= event.type !== "LOG" || MARK.test(event.line ?? "");
        isDone ||= event.type === "DONE";
        frame ||= requestAnimationFrame(flush);
      };
      socket.onclose = () => {
        if (isDone) return;
        setLog((before) => ({ ...before, isConnected: false }));
        const pause = AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)] ?? 0;
        failures += 1;
        timer = setTimeout(() => {
          close = connect();
        }, pause);
      };
      return () => {
        cancelAnimationFrame(frame);
        socket.onclose = null;
        socket.onmessage = null;
        socket.close();
      };
    }
    return () => {
      clearTimeout(timer);
      close();
    };
  }, [id, runId]);
  return log;
}

function address(id: string, runId: string): string {
  const path = `/api/v1/ws/requests/${encodeURIComponent(id)}/runs/${encodeURIComponent(runId)}`;
  return `${location.origin.replace(/^http/, "ws")}${path}`;
}

// Lines of programs start with `| `, those of the runner with their kind, such as `[STEP]`.
const RUNNER = /^\[[A-Z]+\] /;

const lineOf = ({ ts, line = "" }: LogEvent, index: number): LogLine =>
  readable({
    id: String(index),
    ts: Date.parse(ts) / 1000,
    text: line,
    stream: RUNNER.test(line) ? "runner" : "stdout",
    task: null,
    attempt: 1,
  });
