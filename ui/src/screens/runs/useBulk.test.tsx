import { QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { describe, expect, it } from "vitest";
import type { Schemas } from "../../api/client";
import { Problem } from "../../api/problem";
import { queryClient } from "../../api/queries";
import { type BulkRequest, useBulk } from "./useBulk";

const wrapper = ({ children }: { children: ReactNode }) => (
  <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
);

/** A gateway that returns these counts in turn, and accepts only the last one. */
function gateway(...counts: number[]) {
  const asked: BulkRequest[] = [];
  const post = async (how: BulkRequest) => {
    asked.push(how);
    if ("dry_run" in how) {
      const matched = counts.length > 1 ? counts.shift() : counts[0];
      return { data: { matched, sample: [] } as unknown as Schemas["BulkAnswer"] };
    }
    if (how.expected_count !== counts[0]) throw new Problem("refused", "", 409, "ERR-PYOCO-0030");
    return { data: { operation: { bulk_id: "b" } } as unknown as Schemas["BulkAnswer"] };
  };
  return { asked, post };
}

describe("a bulk operation", () => {
  it("counts again when the count has changed", async () => {
    const { asked, post } = gateway(3, 5);
    const { result } = renderHook(() => useBulk(post, ""), { wrapper });
    await waitFor(() => expect(result.current.matched).toBe(3));
    act(() => result.current.start());
    await waitFor(() => expect(result.current.matched).toBe(5));
    expect(result.current.before).toBe(3);
    expect(result.current.startProblem).toBeNull();
    act(() => result.current.start());
    await waitFor(() => expect(result.current.operation).not.toBeNull());
    expect(asked.at(-1)).toEqual({ expected_count: 5 });
  });

  it("has the same key for a retry, and another one for other content", async () => {
    const keys: (string | undefined)[] = [];
    const post = async (how: BulkRequest, key?: string) => {
      if ("dry_run" in how) return { data: { matched: 3 } as Schemas["BulkAnswer"] };
      keys.push(key);
      throw new Problem("away", "", 503, "ERR-PYOCO-0003");
    };
    const { result, rerender } = renderHook(({ content }) => useBulk(post, content), {
      wrapper,
      initialProps: { content: "start" },
    });
    await waitFor(() => expect(result.current.matched).toBe(3));
    for (const content of ["start", "start", "failed"]) {
      rerender({ content });
      const sent = keys.length;
      act(() => result.current.start());
      await waitFor(() => expect(keys.length).toBe(sent + 1));
    }
    expect(keys[0]).toBeTruthy();
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
  });

  it("reports a refusal for another reason", async () => {
    const post = async (how: BulkRequest) => {
      if ("dry_run" in how) return { data: { matched: 3 } as Schemas["BulkAnswer"] };
      throw new Problem("refused", "", 409, "ERR-PYOCO-0030");
    };
    const { result } = renderHook(() => useBulk(post, ""), { wrapper });
    await waitFor(() => expect(result.current.matched).toBe(3));
    act(() => result.current.start());
    await waitFor(() => expect(result.current.startProblem?.errId).toBe("ERR-PYOCO-0030"));
    await waitFor(() => expect(result.current.counting).toBe(false));
    expect(result.current.before).toBeNull();
  });
});
