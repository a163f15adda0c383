/** The health of the gateway. */
import { useEffect, useRef } from "react";
import { api } from "../api/client";
import { queryClient, useRead } from "../api/queries";

export type HealthWord = "ok" | "unreachable" | "storage" | "nats" | "index";
const EVERY_MS = 5_000;

export function useHealth(): HealthWord | null {
  const { data, isError, isPending } = useRead(["health"], (signal) => api.GET("/health", { signal }), {
    every: EVERY_MS,
  });
  const word = isPending
    ? null
    : isError
      ? "unreachable"
      : !data.storage.ready
        ? "storage"
        : !data.nats.ready
          ? "nats"
          : !data.index.ready
            ? "index"
            : "ok";
  const before = useRef(word);
  useEffect(() => {
    const back = word === "ok" && before.current !== "ok" && before.current !== null;
    before.current = word;
    // Refetch failed reads at once.
    if (back) void queryClient.invalidateQueries();
  }, [word]);
  return word;
}
