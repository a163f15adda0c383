/** A value that was too long for the run's record: its size, and how it begins. */
export interface Cut {
  bytes: number;
  preview: string;
}

/** What the gateway put in the place of a long value, or null for a value that is whole. */
export function cutOf(value: unknown): Cut | null {
  if (typeof value !== "object" || value === null || Object.keys(value).length !== 3) return null;
  const { truncated, bytes, preview } = value as Record<string, unknown>;
  if (truncated !== true || typeof bytes !== "number" || typeof preview !== "string") return null;
  return { bytes, preview };
}
