/** Tasks of a run that belong together: parallel ones of the same place, and tasks that a loop calls often. */
import { counted, type Task } from "../run";

export interface FanOut {
  /** The name of the only task, or what the names of all have in common. */
  name: string;
  /** How many tasks, or how many calls of one task. */
  count: number;
  loop: boolean;
  /** Of a loop: each call but the last has failed, so that the next was another attempt. */
  isRetried: boolean;
  states: [Task["state"], number][];
  /** The task to look at first: one that failed, else the first. */
  first: string;
}

/** Fewer parallel tasks are easily seen in the graph. */
const FEWEST = 5;

export function fanOuts(tasks: readonly Task[]): FanOut[] {
  const places = new Map<string, Task[]>();
  for (const task of tasks) {
    const after = [...(task.record.after ?? [])].sort();
    // Tasks without a predecessor belong together only by their names.
    const place = JSON.stringify([after, stem(task.name)]);
    places.set(place, [...(places.get(place) ?? []), task]);
  }
  const parallel = [...places.values()]
    .filter((group) => group.length >= FEWEST)
    .map((group) => ({
      name: stem(group[0]?.name ?? ""),
      count: group.length,
      loop: false,
      isRetried: false,
      states: counted(group),
      first: firstOf(group),
    }));
  const loops = tasks
    .filter(({ record }) => (record.calls ?? 1) > 1)
    .map((task) => ({
      name: task.name,
      count: task.record.calls ?? 1,
      loop: true,
      isRetried: isRetried(task),
      states: counted([task]),
      first: task.name,
    }));
  return [...parallel, ...loops];
}

function isRetried({ record: { calls, latest_calls = [] } }: Task): boolean {
  const earlier = latest_calls.slice(0, -1);
  // Of many calls only the latest are recorded.
  return latest_calls.length === calls && earlier.every(({ error }) => error !== undefined);
}

/** `work_17` and `work[17]` are items of `work`. */
const stem = (name: string): string => name.replace(/[\s_.:#-]*[[(]?\d+[\])]?$/, "");

const firstOf = (group: readonly Task[]): string =>
  (group.find(({ state }) => state === "FAILED") ?? group[0])?.name ?? "";
