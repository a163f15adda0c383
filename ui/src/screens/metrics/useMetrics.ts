/** Scrapes of `GET /metrics` while the screen is open, and the overview of the last hour. */
import { apiKey } from "../../api/apiKey";
import { api, send } from "../../api/client";
import { useRead } from "../../api/queries";
import { parseExposition, Scrape } from "./exposition";

const EVERY_MS = 5_000;
export const KEPT_SEC = 600;

let kept: readonly Scrape[] = [];
// Another key has another view.
apiKey.subscribe(() => {
  kept = [];
});

async function scrape(signal: AbortSignal): Promise<{ data: { scrapes: readonly Scrape[] } }> {
  const answer = await send(new Request("/metrics", { signal }));
  const latest = new Scrape(Date.now() / 1000, parseExposition(await answer.text()));
  kept = [...kept.filter(({ at }) => latest.at - at < KEPT_SEC), latest];
  return { data: { scrapes: kept } };
}

export function useMetrics() {
  const metrics = useRead(["metrics"], scrape, { every: EVERY_MS });
  const overview = useRead(
    ["overview", "1h"],
    (signal) => api.GET("/overview", { params: { query: { window: "1h" } }, signal }),
    { every: EVERY_MS },
  );
  return { metrics, overview };
}
