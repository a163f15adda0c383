/** How runs end: the order, colours and statuses of charts of ended runs. */

/** From bottom to top. */
export const ENDS = ["completed", "cancelled", "failed"] as const;
export type End = (typeof ENDS)[number];
export type EndCounts = Record<End, number>;

export const STATUS_OF = { completed: "COMPLETED", cancelled: "CANCELLED", failed: "FAILED" } as const;

export const countOf = (counts: EndCounts): number => counts.completed + counts.failed + counts.cancelled;

export function sumOf(intervals: readonly EndCounts[]): EndCounts {
  const sum = { completed: 0, cancelled: 0, failed: 0 };
  for (const interval of intervals) for (const end of ENDS) sum[end] += interval[end];
  return sum;
}
