/** Cached reads of the API, and mutations that report failures. */
import { keepPreviousData, QueryClient, type QueryKey, useMutation, useQuery } from "@tanstack/react-query";
import { onLanguageChange } from "../i18n/language";
import { showProblem } from "../ui/toasts";
import { apiKey } from "./apiKey";
import { setPolledAt } from "./connection";
import { Problem } from "./problem";

interface Answer<T> {
  data?: T;
}

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (failures, error) => failures < 2 && Problem.from(error).passing,
      retryDelay: (failures) => 400 * 2 ** failures,
    },
  },
});

// Another language or key invalidates what was read.
onLanguageChange(() => void queryClient.invalidateQueries());
apiKey.subscribe(() => void queryClient.resetQueries());

interface ReadOptions {
  /** Poll interval in milliseconds; none: once. */
  every?: number;
  enabled?: boolean;
  /** Show the data of the previous key until the new one has loaded: for filters of the same list. */
  keep?: boolean;
  /** Part of the frame around every screen: it says nothing about the age of the screen. */
  frame?: boolean;
}

/** `useRead(["workers"], (signal) => api.GET("/workers", { signal }))`. */
export function useRead<T>(
  key: QueryKey,
  read: (signal: AbortSignal) => Promise<Answer<T>>,
  options: ReadOptions = {},
) {
  return useQuery<T, Problem>({
    queryKey: key,
    queryFn: async ({ signal }) => (await read(signal)).data as T,
    refetchInterval: options.every ?? false,
    enabled: options.enabled ?? true,
    placeholderData: options.keep ? keepPreviousData : undefined,
    meta: options.frame ? { frame: true } : undefined,
  });
}

/** When each of the polled reads of this screen was last answered, in milliseconds. */
setPolledAt(() =>
  queryClient
    .getQueryCache()
    .findAll({ type: "active" })
    .filter(({ observers, state }) => state.dataUpdatedAt > 0 && observers.some(isPolled))
    .map(({ state }) => state.dataUpdatedAt),
);

const isPolled = ({ options }: { options: { refetchInterval?: unknown; meta?: object } }): boolean =>
  Boolean(options.refetchInterval) && !options.meta;

/** Prefetches what `useRead` will read under the same key. */
export function prefetch<T>(key: QueryKey, read: (signal: AbortSignal) => Promise<Answer<T>>): void {
  void queryClient.prefetchQuery({
    queryKey: key,
    queryFn: async ({ signal }) => (await read(signal)).data as T,
  });
}

interface ActOptions<T> {
  onDone?: (answer: T) => void;
  /** The caller shows the problem; no toast. */
  quiet?: boolean;
  /** What to refetch afterwards. */
  refresh?: QueryKey[];
}

/** `const pause = useAct((id: string) => api.PATCH("/workers/{worker_id}", ...))`, then `pause.mutate(id)`. */
export function useAct<T, V = void>(act: (value: V) => Promise<Answer<T>>, options: ActOptions<T> = {}) {
  return useMutation<T, Problem, V>({
    mutationFn: async (value) => (await act(value)).data as T,
    onSuccess: (answer) => options.onDone?.(answer),
    onError: (problem) => options.quiet || showProblem(problem),
    onSettled: () =>
      Promise.all((options.refresh ?? []).map((queryKey) => queryClient.invalidateQueries({ queryKey }))),
  });
}
