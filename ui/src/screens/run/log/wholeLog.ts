/** The log as a file, with the lines that the page has left out. */
import { api, type Schemas } from "../../../api/client";
import { asText, type LogFilter, readable, shown } from "./logLines";

// The most that one answer has.
const LIMIT = 5_000;

/** Every line that is stored now and passes the filter, page by page. */
export async function wholeLog(id: string, filter: LogFilter): Promise<string[]> {
  const texts: string[] = [];
  let after: string | null = null;
  for (;;) {
    const query: { limit: number; after?: string } = { limit: LIMIT, ...(after !== null && { after }) };
    const answer = await api.GET("/runs/{run_id}/logs", { params: { path: { run_id: id }, query } });
    const data = answer.data as Schemas["LogsView"] | undefined;
    texts.push(asText(shown((data?.lines ?? []).map(readable), filter)));
    // The same place again: nothing more for now.
    if (!data || data.complete || data.next_after === after) return texts;
    after = data.next_after;
  }
}
