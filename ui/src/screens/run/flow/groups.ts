/** The nodes of the graph: a task each, and one for all parallel tasks of a large fan-out. */
import type { Task } from "../run";

/** So many tasks between the same tasks are one node. */
export const GROUPED_FROM = 12;

export interface Item {
  id: string;
  /** One task, or all of a group. */
  members: readonly string[];
  /** The ids of the nodes directly before it. */
  after: readonly string[];
}

export const isGroup = ({ members }: Item): boolean => members.length > 1;

export function itemsOf(tasks: readonly Task[]): Item[] {
  const parts = groupedByLinks(tasks);
  const idOf = new Map(parts.flatMap(({ id, members }) => members.map((name) => [name, id] as const)));
  const linksOf = new Map(tasks.map(({ name, record }) => [name, record.after ?? []]));
  return parts.map(({ id, members }) => ({
    id,
    members,
    // Every member of a group has the same predecessors.
    after: [...new Set((linksOf.get(members[0] ?? "") ?? []).flatMap((name) => idOf.get(name) ?? []))],
  }));
}

/** In the order of the flow; a group where its first task is. */
function groupedByLinks(tasks: readonly Task[]): { id: string; members: string[] }[] {
  const known = new Set(tasks.map(({ name }) => name));
  const behind = new Map<string, string[]>();
  for (const { name, record } of tasks)
    for (const before of record.after ?? []) behind.set(before, [...(behind.get(before) ?? []), name]);
  const byLinks = new Map<string, string[]>();
  for (const { name, record } of tasks) {
    const before = (record.after ?? []).filter((each) => known.has(each)).sort();
    const links = JSON.stringify([before, behind.get(name) ?? []]);
    byLinks.set(links, [...(byLinks.get(links) ?? []), name]);
  }
  return [...byLinks.values()].flatMap((names) =>
    names.length < GROUPED_FROM
      ? names.map((name) => ({ id: name, members: [name] }))
      : // No task has a line break in its name.
        [{ id: `group\n${names[0]}`, members: names }],
  );
}

/** What the names of a group begin with, without the number that differs: `part_`. */
export function sharedBeginning(names: readonly string[]): string {
  const [first = "", ...rest] = names;
  let end = first.length;
  for (const name of rest) while (!name.startsWith(first.slice(0, end))) end--;
  return first.slice(0, end).replace(/\d+$/, "");
}
