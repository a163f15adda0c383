/** The differences of two JSON values: one entry per path, and lines for long texts. */
import { isObject, type Path, same } from "../../schemaForm/json";

export interface Change {
  path: Path;
  /** Missing: added. */
  before?: unknown;
  /** Missing: removed. */
  after?: unknown;
}

export function changesOf(before: unknown, after: unknown, path: Path = []): Change[] {
  if (same(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) =>
      member(name in before, before[name], name in after, after[name], [...path, name]),
    );
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const places = Array.from({ length: Math.max(before.length, after.length) }, (_, at) => at);
    return places.flatMap((at) =>
      member(at < before.length, before[at], at < after.length, after[at], [...path, at]),
    );
  }
  return [{ path, before, after }];
}

function member(had: boolean, before: unknown, has: boolean, after: unknown, path: Path): Change[] {
  if (had && has) return changesOf(before, after, path);
  return [had ? { path, before } : { path, after }];
}

export interface Line {
  kind: "same" | "removed" | "added";
  text: string;
}

// Above this, the comparison table would be too large.
const MAX_LINES = 400;

/** A line diff by longest common subsequence. */
export function linesOf(before: string, after: string): Line[] {
  const old = before.split("\n");
  const fresh = after.split("\n");
  const all = (kind: Line["kind"], lines: string[]) => lines.map((text) => ({ kind, text }));
  if (old.length > MAX_LINES || fresh.length > MAX_LINES)
    return [...all("removed", old), ...all("added", fresh)];
  const common = Array.from({ length: old.length + 1 }, () => new Array<number>(fresh.length + 1).fill(0));
  const at = (i: number, j: number) => common[i]?.[j] ?? 0;
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = fresh.length - 1; j >= 0; j--) {
      const row = common[i] as number[];
      row[j] = old[i] === fresh[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      lines.push({ kind: "same", text: old[i] as string });
      i += 1;
      j += 1;
    } else if (i < old.length && (j >= fresh.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: "removed", text: old[i] as string });
      i += 1;
    } else {
      lines.push({ kind: "added", text: fresh[j] as string });
      j += 1;
    }
  }
  return lines;
}
