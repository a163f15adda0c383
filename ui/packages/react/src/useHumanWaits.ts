/** A React hook for questions to people: the open questions, live, and a function to answer.
 *
 *     const { runs, reload, respond } = useHumanWaits({ api: "/pyoco" });
 *     await respond(runs[0].id, { decision: "approved" });
 */
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { answering, type Respond } from "./answering.js";
import { type HumanWaitsOptions, humanWaitsClient } from "./client.js";
import { followInbox, type InboxState } from "./following.js";
import { type OpenWaits, openWaits, runsOf, withEvents, without } from "./openWaits.js";
import type { WaitingRun } from "./types.js";

export interface UseHumanWaitsOptions extends HumanWaitsOptions {
  /** Poll interval in milliseconds, if no stream gets through. */
  pollMs?: number;
}

export interface HumanWaits {
  /** The waiting runs, the next deadline first, each with its open questions. */
  runs: WaitingRun[];
  /** Whether `runs` has been loaded. */
  ready: boolean;
  state: InboxState;
  /** The error while `state` is `away` or `refused`. */
  problem: unknown;
  reload: () => Promise<void>;
  /** Answers the question with this id, or the only open question of the run with this id. */
  respond: Respond;
}

const POLL_MS = 10_000;
const NOTHING: OpenWaits = new Map();

export function useHumanWaits(options: UseHumanWaitsOptions): HumanWaits {
  const { api, pollMs = POLL_MS } = options;
  const given = useRef(options);
  useEffect(() => {
    given.current = options;
  });
  const client = useMemo(
    () =>
      humanWaitsClient({
        api,
        headers: () => given.current.headers?.() ?? {},
        fetch: (request) => (given.current.fetch ?? fetch)(request),
      }),
    [api],
  );
  const [waits, setWaits] = useState<OpenWaits>(NOTHING);
  const [ready, setReady] = useState(false);
  const [status, setStatus] = useState<{ state: InboxState; problem: unknown }>(CONNECTING);
  const [round, setRound] = useState(0);
  const watched = usePageIsVisible();

  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` begins again.
  useEffect(() => {
    if (!watched) return;
    const stop = new AbortController();
    const handlers = {
      onEvents: (events: Parameters<typeof withEvents>[1]) => {
        setWaits((before) => withEvents(before, events));
        setReady(true);
      },
      onList: (list: Parameters<typeof openWaits>[0]) => {
        setWaits(openWaits(list));
        setReady(true);
      },
      onState: (state: InboxState, problem: unknown) =>
        setStatus((before) =>
          before.state === state && before.problem === problem ? before : { state, problem },
        ),
    };
    void followInbox(client, handlers, pollMs, stop.signal);
    return () => stop.abort();
  }, [client, pollMs, watched, round]);

  const shown = useRef(waits);
  useEffect(() => {
    shown.current = waits;
  });
  const send = useMemo(() => answering(client, (id) => found(shown.current, id)), [client]);
  const respond = useCallback<Respond>(
    async (id, answer) => {
      const answered = found(shown.current, id);
      const receipt = await send(id, answer);
      // With further approvals required it stays open; that it is may be known here already.
      if (receipt.state !== "open")
        for (const { wait_id } of answered) setWaits((before) => without(before, wait_id));
      return receipt;
    },
    [send],
  );
  const reload = useCallback(async () => {
    setRound((before) => before + 1);
    setWaits(openWaits(await client.list()));
    setReady(true);
  }, [client]);

  const runs = useMemo(() => runsOf(waits), [waits]);
  return { runs, ready, ...status, reload, respond };
}

const CONNECTING = { state: "connecting" as InboxState, problem: null as unknown };

function found(waits: OpenWaits, id: string) {
  const wait = waits.get(id);
  return wait ? [wait] : [...waits.values()].filter(({ run_id }) => run_id === id);
}

/** A browser has few connections per host: a hidden page holds none. */
function usePageIsVisible(): boolean {
  return useSyncExternalStore(onVisibility, () => !document.hidden);
}

function onVisibility(listener: () => void): () => void {
  document.addEventListener("visibilitychange", listener);
  return () => document.removeEventListener("visibilitychange", listener);
}
