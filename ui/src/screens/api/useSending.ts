/** Sends a request and keeps what has arrived of the response; a stream grows until it is stopped. */
import { useCallback, useEffect, useRef, useState } from "react";
import { requestHeaders } from "../../api/client";

export interface Received {
  status: number;
  statusText: string;
  headers: [string, string][];
  type: string;
  /** The beginning of the body, if it is text. */
  text: string;
  bytes: number;
  seconds: number;
  /** Why there is no response, or only a part of it. */
  problem: string | null;
}

/** Characters that are kept and shown. */
export const MOST = 200_000;

const NOTHING: Received = {
  status: 0,
  statusText: "",
  headers: [],
  type: "",
  text: "",
  bytes: 0,
  seconds: 0,
  problem: null,
};

export const isText = (type: string): boolean => /json|text|yaml|xml/.test(type);

export function useSending() {
  const [response, setResponse] = useState<Received | null>(null);
  const [sending, setSending] = useState(false);
  const running = useRef<AbortController | null>(null);
  const stop = useCallback(() => running.current?.abort(), []);
  useEffect(() => stop, [stop]);

  const send = useCallback(async (request: Request) => {
    running.current?.abort();
    const current = new AbortController();
    running.current = current;
    setResponse(null);
    setSending(true);
    for (const [name, value] of Object.entries(requestHeaders())) request.headers.set(name, value);
    const began = performance.now();
    let received = NOTHING;
    const show = (news: Partial<Received>) => {
      received = { ...received, ...news, seconds: (performance.now() - began) / 1000 };
      if (running.current === current) setResponse(received);
    };
    try {
      const answer = await fetch(request, { signal: current.signal });
      const type = answer.headers.get("Content-Type") ?? "";
      show({
        status: answer.status,
        statusText: answer.statusText,
        headers: [...answer.headers],
        type,
      });
      const decoder = new TextDecoder();
      const reader = answer.body?.getReader();
      for (;;) {
        const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
        if (done || !value) break;
        const more = isText(type) ? decoder.decode(value, { stream: true }) : "";
        show({ bytes: received.bytes + value.length, text: (received.text + more).slice(0, MOST) });
      }
    } catch (error) {
      // A response that was stopped is shown as far as it came.
      if (!current.signal.aborted) show({ problem: error instanceof Error ? error.message : String(error) });
    }
    if (running.current === current) setSending(false);
  }, []);

  return { response, sending, send, stop };
}
