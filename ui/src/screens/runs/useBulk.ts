/** A bulk operation: counted, confirmed, started, and counted again if the count has changed. */
import { useEffect, useRef, useState } from "react";
import type { Schemas } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import { useAct } from "../../api/queries";

const REFUSED = "ERR-PYOCO-0030";

export type BulkRequest = { dry_run: true } | { expected_count: number };

type Post = (asked: BulkRequest, key?: string) => Promise<{ data?: Schemas["BulkAnswer"] }>;

/** `content` is the request without the count: a retry with the same content is the same operation. */
export function useBulk(post: Post, content: string) {
  const attempt = useRef(new Attempt());
  const [refused, setRefused] = useState<number | null>(null);
  const count = useAct(() => post({ dry_run: true }), { quiet: true });
  const begin = useAct(
    (expected: number) => post({ expected_count: expected }, attempt.current.keyFor(content)),
    { quiet: true },
  );
  const matched = count.data?.matched ?? 0;
  const { mutate } = count;
  // biome-ignore lint/correctness/useExhaustiveDependencies: counted once, when it opens.
  useEffect(() => mutate(), []);
  const start = () => {
    setRefused(null);
    begin.mutate(matched, {
      onError: ({ errId }) => {
        if (errId !== REFUSED) return;
        setRefused(matched);
        mutate();
      },
    });
  };
  const recounting = refused !== null && count.isPending;
  // The previous count, if the count has changed; a refusal for another reason is an error.
  const before = refused !== null && count.data && count.data.matched !== refused ? refused : null;
  return {
    counted: count.data,
    counting: count.isPending,
    countProblem: count.error,
    recount: () => mutate(),
    matched,
    before,
    start,
    starting: begin.isPending,
    startProblem: recounting || before !== null ? null : begin.error,
    operation: begin.data?.operation ?? null,
  };
}
