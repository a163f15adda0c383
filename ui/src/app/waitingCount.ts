/** How many runs wait for a person: the number beside the inbox. */
import { api } from "../api/client";
import { useRead } from "../api/queries";

const EVERY_MS = 15_000;

export function useWaitingCount(): number {
  const { data } = useRead(
    ["runs", "waiting-count"],
    (signal) =>
      api.GET("/runs", { params: { query: { status: ["WAITING_HUMAN"], limit: 1, total: true } }, signal }),
    { every: EVERY_MS },
  );
  return data && "total" in data ? (data.total ?? 0) : 0;
}
