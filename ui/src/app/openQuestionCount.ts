/** The number of open questions, shown in the navigation.
 *
 * Polled: a stream would use one of the few connections that a browser has per host.
 */
import { api } from "../api/client";
import { useRead } from "../api/queries";

const EVERY_MS = 10_000;

export function useOpenQuestionCount(): number {
  const { data } = useRead(
    ["waits", "count"],
    (signal) => api.GET("/waits", { params: { query: { limit: 1 } }, signal }),
    { every: EVERY_MS, frame: true },
  );
  return data?.total ?? 0;
}
