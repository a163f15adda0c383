/** The health of the gateway, and the connection to it. */
import { useEffect, useRef } from "react";
import { api } from "../api/client";
import { type Connection, useConnection } from "../api/connection";
import { queryClient, useRead } from "../api/queries";

export type HealthWord = "ok" | "unreachable" | "storage" | "nats" | "index";
const EVERY_MS = 5_000;
// A gateway that is frozen accepts a request and never answers it.
const PATIENCE_MS = 8_000;

const readHealth = (signal: AbortSignal) =>
  api.GET("/health", { signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]) });

export interface Health extends Connection {
  word: HealthWord | null;
}

export function useHealth(): Health {
  const { data, isError } = useRead(["health"], readHealth, { every: EVERY_MS, frame: true });
  const connection = useConnection();
  const word =
    connection.lostAt !== null || isError
      ? "unreachable"
      : !data
        ? null
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
  return { word, ...connection };
}
