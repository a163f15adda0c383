/** The matching runs, live: a page, and a stream of changes from there on. */
import { type Dispatch, type SetStateAction, useCallback, useEffect, useRef, useState } from "react";
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
  frozen: boolean;
  /** The list to restore on Back. */
  restored: RunList | undefined;
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

export function useLiveRuns({ filter, ordering, frozen, restored, onChanged }: Options): LiveRuns {
  const [list, setList] = useState<RunList>(restored ?? EMPTY);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  const { sort, ascending } = ordering;
  const requested = { filter, sort, ascending, round, key: `${filter} ${sort} ${ascending}` };
  const reload = useCallback(() => setRound((before) => before + 1), []);

  const { readFor, watched } = useFirstPage(requested, restored, setList, setProblem);
  const stream = useChanges(watched, reload, (changes, position) => {
    const changed = (before: RunList) =>
      changes.length > 0 ? withChanges(before, changes, ordering, { frozen }) : before;
    setList((before) => ({ ...changed(before), position }));
    if (changes.length > 0) onChanged();
  });

  // An open page does not keep all runs of the day: at the top the first page is loaded again.
  const tooLong = !frozen && (list.order.length > MOST_AT_TOP || list.overflowed);
  useEffect(() => {
    if (tooLong) reload();
  }, [tooLong, reload]);

  useEffect(() => {
    if (!frozen) setList((before) => released(before, { sort, ascending }));
  }, [frozen, sort, ascending]);

  const settled = readFor === requested.key;
  const loadMore = useFurtherPages(requested, settled ? list.cursor : null, setList, setProblem);
  return {
    list,
    ready: readFor !== null,
    settled,
    problem: problem ?? (stream.state === "failed" ? (stream.problem ?? null) : null),
    loadMore,
    reload,
  };
}

interface Wanted extends Ordering {
  filter: string;
  /** The filter and the order. */
  key: string;
  /** Another number asks for the same list again. */
  round: number;
}

type SetList = Dispatch<SetStateAction<RunList>>;
type SetProblem = (problem: Problem | null) => void;

/** Reads the first page, or continues a restored list: for which list that is done, and the stream from there on. */
function useFirstPage(
  { filter, sort, ascending, key, round }: Wanted,
  restored: RunList | undefined,
  setList: SetList,
  setProblem: SetProblem,
) {
  const [readFor, setReadFor] = useState<string | null>(null);
  const [watched, setWatched] = useState<string | null>(null);
  const restoredPosition = useRef(restored?.position);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` asks for the same list again.
  useEffect(() => {
    const stop = new AbortController();
    let retry: ReturnType<typeof setTimeout> | undefined;
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
        const problem = Problem.from(error);
        setProblem(problem);
        if (problem.passing) retry = setTimeout(read, RETRY_MS);
      }
    };
    setWatched(null);
    if (restoredPosition.current) follow(restoredPosition.current);
    else void read();
    restoredPosition.current = undefined;
    return () => {
      stop.abort();
      clearTimeout(retry);
    };
  }, [key, filter, sort, ascending, round, setList, setProblem]);
  return { readFor, watched };
}

/** Follows the changes of the list, in batches. A reset of the stream ends it. */
function useChanges(
  watched: string | null,
  onReset: () => void,
  onChanges: (changes: Change[], position: string | null) => void,
) {
  const gather = useGathered<StreamItem>((gathered) => {
    // Ignore late changes of another filter.
    const items = gathered.filter(({ from }) => from === watched);
    if (items.length === 0) return;
    onChanges(
      items.flatMap(({ change }) => change ?? []),
      items.at(-1)?.position ?? null,
    );
  });
  return useEventStream(watched, (event) => {
    if (event.event === "reset") {
      onReset();
      return "end";
    }
    // Also without a change, so that a reconnect does not repeat changes of others.
    const change = changeOf(event);
    if (change || event.id) gather({ change, position: event.id, from: watched });
    return undefined;
  });
}

/** Loads the page at the cursor, one at a time. Without a cursor there is none to load. */
function useFurtherPages(
  { filter, sort, ascending, key, round }: Wanted,
  cursor: string | null,
  setList: SetList,
  setProblem: SetProblem,
): () => void {
  const loading = useRef<AbortController | null>(null);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the pages of another list are not waited for.
  useEffect(() => {
    loading.current?.abort();
    loading.current = null;
  }, [key, round]);

  return useCallback(() => {
    if (cursor === null || loading.current) return;
    const stop = new AbortController();
    loading.current = stop;
    readPage(filter, { sort, ascending }, cursor, stop.signal)
      .then(({ page }) => setList((before) => withPage(before, page.items, page.next_cursor)))
      .catch((error: unknown) => stop.signal.aborted || setProblem(Problem.from(error)))
      .finally(() => {
        if (loading.current === stop) loading.current = null;
      });
  }, [cursor, filter, sort, ascending, setList, setProblem]);
}

interface StreamItem {
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
