import { afterEach, describe, expect, it, vi } from "vitest";
import { schemaErrors } from "./schemaErrors";
import { type Check, errorsOf } from "./schemaWorker";

const CHECK: Check = { value: "aaaa!", schema: { type: "string", pattern: "^(a+)+$" } };

/** A thread that answers with `answer`, or never. */
function fakeWorker(answer?: (check: Check) => unknown) {
  const ended = vi.fn();
  class FakeWorker {
    onmessage: (event: { data: unknown }) => void = () => undefined;
    terminate = ended;
    postMessage(check: Check) {
      if (answer) this.onmessage({ data: answer(check) });
    }
  }
  vi.stubGlobal("Worker", FakeWorker);
  return ended;
}

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("a schema with a regular expression", () => {
  it("is checked in a thread of its own", async () => {
    const ended = fakeWorker(errorsOf);
    expect((await schemaErrors(CHECK)).map(({ keyword }) => keyword)).toEqual(["pattern"]);
    expect(ended).toHaveBeenCalledOnce();
  });

  it("is left to the gateway when it takes too long", async () => {
    vi.useFakeTimers();
    const ended = fakeWorker();
    const errors = schemaErrors(CHECK);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await errors).toEqual([]);
    expect(ended).toHaveBeenCalledOnce();
  });
});

it("needs no thread without a regular expression", async () => {
  fakeWorker();
  const errors = await schemaErrors({ value: 1, schema: { type: "string" } });
  expect(errors.map(({ keyword }) => keyword)).toEqual(["type"]);
});
