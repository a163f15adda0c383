/** The differences of two runs, in rows with one value of each. */
import { duration } from "../../i18n/time";
import { jsonText } from "../../lib/exactJson";
import { type Run, type Task, tasksOf, tookOf } from "../run/run";

export interface ValueRow {
  /** Where the value is: `order.items[2]`. */
  path: string;
  /** As JSON; null: it has none. */
  a: string | null;
  b: string | null;
}
export interface TaskRow {
  name: string;
  a: TaskSide | null;
  b: TaskSide | null;
  /** How much longer the second one took, in seconds; null where one has no duration. */
  longer: number | null;
}
export interface TaskSide {
  state: Task["state"];
  took: number | null;
  /** Undefined: it has none. */
  output: unknown;
}

/** More rows would help nobody. */
export const MOST_ROWS = 300;

export const differs = ({ a, b }: { a: unknown; b: unknown }): boolean => a !== b;

/** Durations that differ by less do so by chance. */
export const SAME_SEC = 0.05;

/** Whether two durations are equal, or are shown with the same text. */
export function isSameTime(a: number | null, b: number | null): boolean {
  if (a === null || b === null) return a === b;
  return Math.abs(a - b) < SAME_SEC || duration(a) === duration(b);
}

/** A row for each simple value of two JSON values, in the order of the first one. */
export function valueRows(a: unknown, b: unknown): ValueRow[] {
  const left = new Map(leaves(a));
  const right = new Map(leaves(b));
  const paths = new Set([...left.keys(), ...right.keys()]);
  return [...paths].map((path) => ({ path, a: left.get(path) ?? null, b: right.get(path) ?? null }));
}

function* leaves(value: unknown, path = ""): Generator<[string, string]> {
  const parts = partsOf(value);
  if (parts === null || parts.length === 0) {
    if (value !== undefined) yield [path, jsonText(value)];
    return;
  }
  for (const [name, part] of parts) {
    const inner = Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name;
    yield* leaves(part, inner);
  }
}

function partsOf(value: unknown): [string, unknown][] | null {
  if (Array.isArray(value)) return value.map((part, at) => [String(at), part]);
  // Other objects, such as exact numbers, are values.
  const isPlain = typeof value === "object" && value !== null && value.constructor === Object;
  return isPlain ? Object.entries(value) : null;
}

/** The tasks of both, those of the first one in its order. */
export function taskRows(a: Run, b: Run): TaskRow[] {
  const left = sides(a);
  const right = sides(b);
  return [...new Set([...left.keys(), ...right.keys()])].map((name) => {
    const [one, other] = [left.get(name) ?? null, right.get(name) ?? null];
    const longer = one?.took == null || other?.took == null ? null : other.took - one.took;
    return { name, a: one, b: other, longer };
  });
}

/** Whether it ended otherwise, or took another time. */
export const tasksDiffer = ({ a, b, longer }: TaskRow): boolean =>
  a?.state !== b?.state || (longer !== null && Math.abs(longer) >= SAME_SEC);

const sides = (run: Run): Map<string, TaskSide> =>
  new Map(
    tasksOf(run).map((task) => [
      task.name,
      {
        state: task.state,
        took: tookOf(task, run.end_time ?? null),
        output: task.record.output ?? undefined,
      },
    ]),
  );

export const tookSec = ({ start_time, end_time }: Run): number | null =>
  start_time == null || end_time == null ? null : Math.max(0, end_time - start_time);

export const queuedSec = ({ submitted_at, start_time }: Run): number | null =>
  submitted_at == null || start_time == null ? null : Math.max(0, start_time - submitted_at);

/** By how many percent the second one is longer; negative: shorter. Null where that says nothing. */
export function change(a: number | null, b: number | null): number | null {
  if (a === null || b === null || a <= 0) return null;
  return Math.round(((b - a) / a) * 100);
}
