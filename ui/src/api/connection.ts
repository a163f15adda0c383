/** Connection state of the dashboard: when the gateway last responded, and how old the screen is.
 *
 * Every response, and every chunk of an event stream, says that the gateway is there. Streams have a heartbeat
 * every five seconds, and its health is read as often: a longer silence is a gateway that does not respond.
 */
import { useEffect, useRef } from "react";
import { useNow } from "../lib/clock";
import { createStore, useStore } from "../lib/store";

const SILENCE_SEC = 10;

const isUnreachable = createStore(false);
/** What the screen is made of: each with the moment up to which it is known. */
const sources = new Map<symbol, number>();
let respondedAt = Date.now();
/** A hidden tab reads nothing: its silence counts from the moment it is shown. */
let shownAt = Date.now();

document.addEventListener("visibilitychange", () => {
  shownAt = Date.now();
});

export function recordResponse(): void {
  respondedAt = Date.now();
  isUnreachable.set(false);
}

/** A request has failed without a response. */
export const recordUnreachable = (): void => isUnreachable.set(true);

/** The same response; each chunk of an event stream is recorded. */
export function recordStreamChunks(answer: Response, onChunk: () => void = recordResponse): Response {
  if (!answer.body || !answer.headers.get("Content-Type")?.startsWith("text/event-stream")) return answer;
  const pass = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, next) {
      onChunk();
      next.enqueue(chunk);
    },
  });
  return new Response(answer.body.pipeThrough(pass), answer);
}

/** Registers a part of the screen that is kept up to date; call the result whenever it is. */
export function useSource(isFollowed: boolean): () => void {
  const id = useRef(Symbol("source"));
  useEffect(() => {
    if (!isFollowed) return;
    const key = id.current;
    sources.set(key, Date.now());
    return () => void sources.delete(key);
  }, [isFollowed]);
  const touch = useRef(() => {
    if (sources.has(id.current)) sources.set(id.current, Date.now());
  });
  return touch.current;
}

export interface Connection {
  /** Null while the gateway answers; else since when it does not, in unix seconds. */
  lostAt: number | null;
  /** The moment up to which the oldest part of the screen is known; null: nothing on it changes. */
  knownAt: number | null;
}

/** The reads that are polled, which the cache knows (queries.ts). */
let polledAt = (): number[] => [];
export function setPolledAt(read: () => number[]): void {
  polledAt = read;
}

export function useConnection(): Connection {
  const now = useNow();
  const unreachable = useStore(isUnreachable);
  const silent = now - Math.max(respondedAt, shownAt) / 1000 > SILENCE_SEC;
  const known = [...sources.values(), ...polledAt()];
  return {
    lostAt: unreachable || silent ? respondedAt / 1000 : null,
    knownAt: known.length > 0 ? Math.min(...known) / 1000 : null,
  };
}
