/** Server-sent events over `fetch`, which unlike `EventSource` can send an API key. Reconnects automatically. */
import { useEffect, useEffectEvent, useState } from "react";
import { send } from "./client";
import { recordStreamChunks, useSource } from "./connection";
import { eventParser, type ServerEvent } from "./eventParser";
import { Problem } from "./problem";
import { queryClient } from "./queries";
import { withSlot } from "./streamSlots";

export type StreamState = "connecting" | "live" | "reconnecting" | "ended" | "failed";

export interface StreamHandlers {
  /** Return `"end"` after the last event to prevent a reconnect. */
  onEvent(event: ServerEvent): "end" | undefined;
  onState?(state: StreamState, problem?: Problem): void;
  /** Something has arrived, if only a heartbeat: what is known is up to date. */
  onHeard?(): void;
}

// The gateway sends a heartbeat every 5 seconds.
const SILENCE_MS = 12_500;
// A hidden tab closes its connections, but not if it is hidden only briefly.
const HIDDEN_MS = 1_000;
// A stream without a slot of its own (streamSlots.ts) reads in turns.
// A turn ends when nothing arrives for a moment, or after its maximum time.
const TURN_MS = 1_000;
const QUIET_MS = 200;
const BETWEEN_TURNS_MS = 2_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

/** Follow a stream until it ends or `signal` aborts. */
export async function followEvents(
  url: string,
  handlers: StreamHandlers,
  signal: AbortSignal,
): Promise<void> {
  let lastId: string | undefined;
  let pause = FIRST_PAUSE_MS;
  const onEvent = (event: ServerEvent) => {
    lastId = event.id ?? lastId;
    return handlers.onEvent(event);
  };
  handlers.onState?.("connecting");
  while (!signal.aborted) {
    await whenVisible(signal);
    let problem: Problem | undefined;
    try {
      const ending = await withSlot(signal, async (kind) => {
        const answer = await connect(url, lastId, signal);
        handlers.onState?.("live");
        pause = FIRST_PAUSE_MS;
        const { onHeard = () => undefined } = handlers;
        return readEvents(recordStreamChunks(answer, onHeard), onEvent, signal, kind === "turn");
      });
      if (ending === "end") return handlers.onState?.("ended");
      if (ending === "turn") {
        await sleep(BETWEEN_TURNS_MS, signal);
        continue;
      }
    } catch (error) {
      if (signal.aborted) return;
      problem = Problem.from(error);
      if (!problem.passing) return handlers.onState?.("failed", problem);
    }
    if (signal.aborted) return;
    handlers.onState?.("reconnecting", problem);
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

function connect(url: string, lastId: string | undefined, signal: AbortSignal): Promise<Response> {
  const headers = { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) };
  return send(new Request(new URL(url, location.origin), { headers, signal, cache: "no-store" }));
}

async function readEvents(
  answer: Response,
  onEvent: StreamHandlers["onEvent"],
  signal: AbortSignal,
  isTurn: boolean,
): Promise<"end" | "turn" | undefined> {
  if (!answer.body) return undefined;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = eventParser();
  const cancel = () => void reader.cancel().catch(() => undefined);
  let watchdog = setTimeout(cancel, SILENCE_MS);
  let isOver = false;
  const leave = () => {
    isOver = true;
    cancel();
  };
  const turnEnds = isTurn ? setTimeout(leave, TURN_MS) : undefined;
  let quiet: ReturnType<typeof setTimeout> | undefined;
  signal.addEventListener("abort", cancel, { once: true });
  const stopWatching = onHidden(cancel);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return isOver ? "turn" : undefined;
      clearTimeout(watchdog);
      watchdog = setTimeout(cancel, SILENCE_MS);
      clearTimeout(quiet);
      if (isTurn) quiet = setTimeout(leave, QUIET_MS);
      for (const event of parse(value)) if (onEvent(event) === "end") return "end";
    }
  } finally {
    clearTimeout(watchdog);
    clearTimeout(turnEnds);
    clearTimeout(quiet);
    signal.removeEventListener("abort", cancel);
    stopWatching();
    cancel();
  }
}

/** Call back when the tab has been hidden for a while. */
function onHidden(callback: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(callback, HIDDEN_MS);
  };
  look();
  document.addEventListener("visibilitychange", look);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
}

/** Resolves when the tab is visible. */
function whenVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    signal.addEventListener("abort", finish);
  });
}

/** Follow `url` while the component is mounted; `null` follows nothing. */
export function useEventStream(url: string | null, onEvent: StreamHandlers["onEvent"]) {
  const [state, setState] = useState<{ state: StreamState; problem?: Problem }>({ state: "connecting" });
  const handle = useEffectEvent(onEvent);
  const touch = useSource(url !== null && state.state !== "ended" && state.state !== "failed");
  useEffect(() => {
    if (url === null) return;
    const stop = new AbortController();
    void followEvents(
      url,
      {
        onEvent: (event) => handle(event),
        onHeard: touch,
        onState(next, problem) {
          setState({ state: next, problem });
          // An outage is noticed here first.
          if (next === "reconnecting" || next === "live")
            void queryClient.invalidateQueries({ queryKey: ["health"] });
        },
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [url, touch]);
  return state;
}
