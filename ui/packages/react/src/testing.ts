/** For tests: a question, and a fake gateway. */
import type { HumanWait } from "./types.js";

export function aWait(waitId: string, fields: Partial<HumanWait> = {}): HumanWait {
  return {
    wait_id: waitId,
    run_id: waitId.split(".")[0] ?? "",
    flow_name: "invoices",
    tag: "default",
    task: "check",
    node: "check||1",
    name: "human",
    message: "Is it right?",
    state: "open",
    created_at: 1,
    deadline_at: 100,
    arming: 1,
    tenant_id: null,
    assignees: [],
    proposal_digest: null,
    decided_at: null,
    decided_by: null,
    decision: null,
    ...fields,
  };
}

export const json = (value: unknown, status = 200): Response =>
  new Response(JSON.stringify(value), { status, headers: { "Content-Type": "application/json" } });

/** An event stream that the test writes to. */
export function eventStream() {
  const encoder = new TextEncoder();
  let out: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      out = controller;
    },
  });
  let number = 0;
  return {
    answer: new Response(body),
    tell(event: string, data: unknown) {
      number += 1;
      out?.enqueue(encoder.encode(`id: e-${number}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
    },
    end: () => out?.close(),
  };
}
