/** The matching runs, live: a page, and a stream of changes from there on. */
import { useCallback, useEffect, useRef, useState } from "react";
import type { ServerEvent } from "../../api/eventParser";
import { useEventStream } from "../../api/eventStream";
import { Problem } from "../../api/problem";
import type { Ordering } from "./filters";
import { readPage } from "./pages";
import { type Change, EMPTY, type Run, type RunList, released, withChanges, withPage } from "./runList";

const RETRY_MS = 1_500;
const MOST_AT_TOP = 2_000;
// Changes are batched: fast enough for the eye, and slow enough for a thousand per second.
const GATHER_MS = 60;

interface Options {
  /** The filters for the API; a changed text is another list. */
  filter: string;
  ordering: Ordering;
  /** Whether rows must not move, because somebody reads them. */
  still: boolean;
  /** The list to restore on Back. */
  left: RunList | undefined;
  /** Called after changes were rendered. */
  onChanged: () => void;
}

export interface LiveRuns {
  list: RunList;
  /** Whether the first page is loaded. */
  ready: boolean;
  /** Whether the list belongs to the current filter and order. */
  settled: boolean;
  problem: Problem | null;
  loadMore: () => void;
  reload: () => void;
}

export function useLiveRuns({ filter, ordering, still, left, onChanged }: Options): LiveRuns {
  const [list, setList] = useState<RunList>(left ?? EMPTY);
  const [readFor, setReadFor] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [watched, setWatched] = useState<string | null>(null);
  const [round, setRound] = useState(0);
  const more = useRef<AbortController | null>(null);
  const comingBack = useRef(left);
  const { sort, ascending } = ordering;
  const key = `${filter} ${sort} ${ascending}`;

  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` asks for the same list again.
  useEffect(() => {
    const stop = new AbortController();
    let again: ReturnType<typeof setTimeout> | undefined;
    more.current?.abort();
    more.current = null;
    const follow = (from: string | null) => {
      setReadFor(key);
      setProblem(null);
      const after = new URLSearchParams(filter);
      after.set("include", "params");
      if (from) after.set("after", from);
      setWatched(`/runs/watch?${after}`);
    };
    const read = async () => {
      try {
        const { page, revision } = await readPage(filter, { sort, ascending }, null, stop.signal);
        setList({ ...withPage(EMPTY, page.items, page.next_cursor), position: revision });
        follow(revision);
      } catch (error) {
        if (stop.signal.aborted) return;
        const what = Problem.from(error);
        setProblem(what);
        if (what.passing) again = setTimeout(read, RETRY_MS);
      }
    };
    setWatched(null);
    if (comingBack.current?.position) follow(comingBack.current.position);
    else void read();
    comingBack.current = undefined;
    return () => {
      stop.abort();
      clearTimeout(again);
    };
  }, [key, filter, sort, ascending, round]);

  const reload = useCallback(() => setRound((before) => before + 1), []);
  const gathered = useGathered<Told>((all) => {
    // Ignore late changes of another filter.
    const told = all.filter(({ from }) => from === watched);
    if (told.length === 0) return;
    const changes = told.flatMap(({ change }) => change ?? []);
    const position = told.at(-1)?.position ?? null;
    const changed = (before: RunList) =>
      changes.length > 0 ? withChanges(before, changes, { sort, ascending }, { still }) : before;
    setList((before) => ({ ...changed(before), position }));
    if (changes.length > 0) onChanged();
  });
  const stream = useEventStream(watched, (event) => {
    if (event.event === "reset") {
      reload();
      return "end";
    }
    // Also without a change, so that a reconnect does not repeat changes of others.
    const change = changeOf(event);
    if (change || event.id) gathered({ change, position: event.id, from: watched });
    return undefined;
  });

  // An open page does not keep all runs of the day: at the top the first page is loaded again.
  const tooLong = !still && (list.order.length > MOST_AT_TOP || list.overflowed);
  useEffect(() => {
    if (tooLong) reload();
  }, [tooLong, reload]);

  useEffect(() => {
    if (!still) setList((before) => released(before, { sort, ascending }));
  }, [still, sort, ascending]);

  const loadMore = useCallback(() => {
    const { cursor } = list;
    if (cursor === null || more.current || readFor !== key) return;
    const stop = new AbortController();
    more.current = stop;
    readPage(filter, { sort, ascending }, cursor, stop.signal)
      .then(({ page }) => setList((before) => withPage(before, page.items, page.next_cursor)))
      .catch((error: unknown) => stop.signal.aborted || setProblem(Problem.from(error)))
      .finally(() => {
        if (more.current === stop) more.current = null;
      });
  }, [list, readFor, key, filter, sort, ascending]);

  return {
    list,
    ready: readFor !== null,
    settled: readFor === key,
    problem: problem ?? (stream.state === "failed" ? (stream.problem ?? null) : null),
    loadMore,
    reload,
  };
}

interface Told {
  /** Null: only the position has changed. */
  change: Change | null;
  position: string | undefined;
  /** The stream it came from. */
  from: string | null;
}

function changeOf({ event, data }: ServerEvent): Change | null {
  if (event === "snapshot") return { run: (data as { snapshot: Run }).snapshot };
  if (event === "removed") return { removed: (data as { run_id: string }).run_id };
  return null;
}

/** Batches what arrives within a moment. */
function useGathered<T>(onGathered: (items: T[]) => void): (item: T) => void {
  const latest = useRef(onGathered);
  const items = useRef<T[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    latest.current = onGathered;
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback((item: T) => {
    items.current.push(item);
    if (items.current.length > 1) return;
    timer.current = setTimeout(() => latest.current(items.current.splice(0)), GATHER_MS);
  }, []);
}
