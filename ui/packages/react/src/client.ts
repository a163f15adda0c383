/** Requests to `/waits` and `/resume` of a gateway. Without React. */
import type { HumanWait, HumanWaitDetails, Receipt, RespondBody } from "./types.js";

export interface HumanWaitsOptions {
  /** The gateway: `https://pyoco.example.com`, or `/pyoco` behind your own proxy. */
  api: string;
  /** Sent with every request, such as `X-API-Key`. Called each time, so that a key may change. */
  headers?: () => Record<string, string>;
  /** Replaces the browser's `fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface FieldError {
  field: string;
  message: string;
}

/** An error response. `error` is machine-readable: `already_decided`, `expired`, … */
export class HumanWaitError extends Error {
  override readonly name = "HumanWaitError";

  constructor(
    message: string,
    readonly status: number,
    readonly error: string | null = null,
    readonly fields: readonly FieldError[] = [],
  ) {
    super(message);
  }

  static async of(answer: Response): Promise<HumanWaitError> {
    const said: unknown = await answer.json().catch(() => null);
    const { message, detail, title, error, errors } = (said ?? {}) as Record<string, unknown>;
    const text = [message, detail, title].find((each) => typeof each === "string" && each !== "");
    return new HumanWaitError(
      typeof text === "string" ? text : `${answer.status} ${answer.statusText}`,
      answer.status,
      typeof error === "string" ? error : null,
      Array.isArray(errors) ? errors : [],
    );
  }
}

export interface HumanWaitsClient {
  /** All open questions, the next deadline first. */
  list(signal?: AbortSignal): Promise<HumanWait[]>;
  get(waitId: string, signal?: AbortSignal): Promise<HumanWaitDetails>;
  respond(waitId: string, body: RespondBody): Promise<Receipt>;
  /** By the run's id, for a run with exactly one open question. */
  resume(runId: string, payload: unknown, decisionId: string): Promise<Receipt>;
  /** The inbox as a stream of server-sent events. */
  watch(after: string | undefined, signal: AbortSignal): Promise<Response>;
}

const PAGE = 200;

export function humanWaitsClient({ api, headers, fetch: given }: HumanWaitsOptions): HumanWaitsClient {
  const base = api.replace(/\/+$/, "");
  const send = async (path: string, init: RequestInit = {}) => {
    const url = new URL(`${base}${path}`, globalThis.location?.href);
    const request = new Request(url, { ...init, headers: { ...headers?.(), ...init.headers } });
    const answer = await (given ?? fetch)(request);
    if (!answer.ok) throw await HumanWaitError.of(answer);
    return answer;
  };
  const read = async <T>(path: string, signal?: AbortSignal) =>
    (await send(path, { signal })).json() as Promise<T>;
  const post = async (path: string, body: unknown) => {
    const json = { "Content-Type": "application/json" };
    const answer = await send(path, { method: "POST", headers: json, body: JSON.stringify(body) });
    return answer.json();
  };
  return {
    async list(signal) {
      const found: HumanWait[] = [];
      let cursor: string | null = null;
      do {
        const query = new URLSearchParams({ limit: String(PAGE), ...(cursor && { cursor }) });
        const page: { items: HumanWait[]; next_cursor: string | null } = await read(
          `/waits?${query}`,
          signal,
        );
        found.push(...page.items);
        cursor = page.next_cursor;
      } while (cursor);
      return found;
    },
    get: (waitId, signal) => read(`/waits/${encodeURIComponent(waitId)}`, signal),
    respond: (waitId, body) => post(`/waits/${encodeURIComponent(waitId)}/respond`, body),
    async resume(runId, payload, decisionId) {
      await post("/resume", { runId, payload, decisionId });
      return { run_id: runId, success: true };
    },
    watch: (after, signal) =>
      send("/waits/watch", {
        signal,
        cache: "no-store",
        headers: { Accept: "text/event-stream", ...(after && { "Last-Event-ID": after }) },
      }),
  };
}
