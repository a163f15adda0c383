/** A truncated value: its size and its beginning. */
export interface TruncatedValue {
  bytes: number;
  preview: string;
}

/** The placeholder of a truncated value, or null for a complete one. */
export function truncatedValueOf(value: unknown): TruncatedValue | null {
  if (typeof value !== "object" || value === null || Object.keys(value).length !== 3) return null;
  const { truncated, bytes, preview } = value as Record<string, unknown>;
  if (truncated !== true || typeof bytes !== "number" || typeof preview !== "string") return null;
  return { bytes, preview };
}
