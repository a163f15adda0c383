import { describe, expect, it } from "vitest";
import type { Task } from "../run";
import { itemsOf, sharedBeginning } from "./groups";
import { beside, type Layout, layoutOf, shapeOf } from "./layout";
import { fitted, opening, READABLE, type Size, scaleFor, showing, zoomed } from "./view";

const task = (name: string, after: string[] = []): Task => ({ name, state: "PENDING", record: { after } });
const chain = (count: number): Task[] =>
  Array.from({ length: count }, (_, at) => task(`step_${at}`, at === 0 ? [] : [`step_${at - 1}`]));
const fanOut = (count: number): Task[] => {
  const parts = Array.from({ length: count }, (_, at) => task(`part_${at}`, ["split"]));
  return [
    task("split"),
    ...parts,
    task(
      "join",
      parts.map(({ name }) => name),
    ),
  ];
};
const drawn = (tasks: readonly Task[], room: Size): Layout => layoutOf(shapeOf(itemsOf(tasks)), room);

const WIDE: Size = { width: 1200, height: 360 };
/** The graph of a run beside its details in a window of 1280 pixels. */
const AT_1280: Size = { width: 650, height: 360 };
/** The graph of a flow beside its form. */
const FLOW_AT_1280: Size = { width: 580, height: 360 };
const AT_390: Size = { width: 350, height: 360 };
const DIAMOND = [
  task("start"),
  task("left", ["start"]),
  task("right", ["start"]),
  task("end", ["left", "right"]),
];

describe("the graph", () => {
  const layout = drawn(DIAMOND, WIDE);

  it("goes from left to right, and states do not move it", () => {
    const x = Object.fromEntries(layout.nodes.map((node) => [node.id, node.x]));
    expect(x.start).toBeLessThan(x.left ?? 0);
    expect(x.left).toBe(x.right);
    expect(x.right).toBeLessThan(x.end ?? 0);
    expect(layout.lines).toHaveLength(4);
    const done = DIAMOND.map((each): Task => ({ ...each, state: "SUCCEEDED" }));
    expect(shapeOf(itemsOf(done))).toBe(shapeOf(itemsOf(DIAMOND)));
  });

  it("omits edges to unknown tasks", () => {
    expect(drawn([task("only", ["gone"])], WIDE).lines).toEqual([]);
  });

  it("is navigated by arrow keys", () => {
    expect(["left", "right"]).toContain(beside(layout, "start", "ArrowRight"));
    expect(beside(layout, "end", "ArrowRight")).toBeNull();
    const other = beside(layout, "left", "ArrowDown") ?? beside(layout, "left", "ArrowUp");
    expect(other).toBe("right");
  });
});

describe("rows", () => {
  it.each([
    ["1280", AT_1280],
    ["390", AT_390],
  ])("make twelve tasks in a row whole and readable at %s pixels", (_, room) => {
    const layout = drawn(chain(12), room);
    expect(scaleFor(layout, room)).toBeGreaterThanOrEqual(READABLE);
    expect(layout.nodes.at(-1)?.row).toBeGreaterThan(0);
    for (const { x, y, height } of layout.nodes) {
      expect(Math.min(x, y)).toBeGreaterThanOrEqual(0);
      expect(x + layout.nodeWidth).toBeLessThanOrEqual(layout.width);
      expect(y + height).toBeLessThanOrEqual(layout.height);
    }
  });

  it("do not overlap", () => {
    const { nodes } = drawn(chain(12), AT_1280);
    const places = nodes.map(({ x, y }) => `${x} ${y}`);
    expect(new Set(places).size).toBe(12);
  });

  it("are not used where there is room", () => {
    expect(drawn(chain(5), WIDE).nodes.every(({ row }) => row === 0)).toBe(true);
  });

  it("are left and entered by the arrow keys", () => {
    const layout = drawn(chain(12), AT_1280);
    const last = layout.nodes.filter(({ row }) => row === 0).at(-1)?.id ?? "";
    const next = beside(layout, last, "ArrowRight") ?? "";
    expect(layout.nodes.find(({ id }) => id === next)?.row).toBe(1);
    expect(beside(layout, next, "ArrowLeft")).toBe(last);
  });
});

/** The straight parts of a line with corners, without its ends at the tasks. */
function straightParts(path: string): { isVertical: boolean; at: number; range: [number, number] }[] {
  const corners = [...path.matchAll(/Q([\d.]+),([\d.]+) /g)].map(([, x, y]) => ({
    x: Number(x),
    y: Number(y),
  }));
  return corners.slice(1).map((to, index) => {
    const from = corners[index] ?? to;
    const isVertical = from.x === to.x;
    const range = isVertical ? [from.y, to.y] : [from.x, to.x];
    return { isVertical, at: isVertical ? from.x : from.y, range: [Math.min(...range), Math.max(...range)] };
  });
}

describe("lines to another row", () => {
  const SALES = [
    task("extract"),
    task("rates"),
    task("clean", ["extract"]),
    task("join", ["clean", "rates"]),
    task("report", ["join"]),
    task("check_stock", ["extract"]),
    task("notify", ["report", "check_stock"]),
  ];
  // Every task of the first columns has lines to the row after the next.
  const LADDER = chain(12).map((each, at) =>
    at < 6 ? each : task(each.name, [...(each.record.after ?? []), `step_${at - 6}`]),
  );

  it.each([
    ["sales", SALES],
    ["a ladder", LADDER],
  ])("never lie on each other, unless one task has both: %s", (_, tasks) => {
    for (const room of [FLOW_AT_1280, AT_390]) {
      const { nodes, lines, height } = drawn(tasks, room);
      const rowOf = new Map(nodes.map(({ id, row }) => [id, row]));
      const turns = lines.filter(({ from, to }) => rowOf.get(from) !== rowOf.get(to));
      expect(turns.length).toBeGreaterThan(1);
      for (const one of turns)
        for (const other of turns) {
          if (one.from === other.from) continue;
          for (const a of straightParts(one.path))
            for (const b of straightParts(other.path)) {
              const share = Math.min(a.range[1], b.range[1]) - Math.max(a.range[0], b.range[0]);
              const isOneLine = a.isVertical === b.isVertical && Math.abs(a.at - b.at) < 2 && share > 0;
              expect(isOneLine, `${one.from} → ${one.to}, ${other.from} → ${other.to}`).toBe(false);
            }
        }
      for (const { y, height: own } of nodes) expect(y + own).toBeLessThanOrEqual(height);
    }
  });

  it("go along the middle of the gap where they are alone", () => {
    const { nodes, lines } = drawn(chain(12), AT_1280);
    const [above, below] = [0, 1].map((row) => nodes.filter((node) => node.row === row));
    const gapTop = Math.max(...(above ?? []).map(({ y, height }) => y + height));
    const gapBottom = Math.min(...(below ?? []).map(({ y }) => y));
    const turn = lines.find(({ to }) => to === below?.[0]?.id);
    expect(straightParts(turn?.path ?? "")[1]?.at).toBeCloseTo((gapTop + gapBottom) / 2);
  });
});

describe("a fan-out", () => {
  it("of sixty tasks is one node between the two others", () => {
    const [split, group, join] = itemsOf(fanOut(60));
    expect(split?.members).toEqual(["split"]);
    expect(group?.members).toHaveLength(60);
    expect(group?.after).toEqual(["split"]);
    expect(join?.after).toEqual([group?.id]);
    expect(scaleFor(drawn(fanOut(60), AT_1280), AT_1280)).toBe(1);
  });

  it("of a few tasks is shown as it is", () => {
    expect(itemsOf(fanOut(5))).toHaveLength(7);
  });

  it("does not contain tasks with other successors", () => {
    const tasks = [...fanOut(20), task("also", ["part_3"])];
    const items = itemsOf(tasks);
    expect(items.find(({ members }) => members.includes("part_3"))?.members).toEqual(["part_3"]);
    expect(items.find(({ members }) => members.includes("part_4"))?.members).toHaveLength(19);
  });

  it("is named by what the names have in common", () => {
    expect(sharedBeginning(["part_10", "part_11", "part_12"])).toBe("part_");
    expect(sharedBeginning(["load", "save"])).toBe("");
  });
});

describe("the view", () => {
  const graph = { width: 2000, height: 900 };
  const room = { width: 600, height: 300 };

  it("shows all of it", () => {
    const { x, y, scale } = fitted(graph, room);
    expect(x).toBeGreaterThanOrEqual(0);
    expect(y).toBeGreaterThanOrEqual(0);
    expect(x + graph.width * scale).toBeLessThanOrEqual(room.width);
    expect(y + graph.height * scale).toBeLessThanOrEqual(room.height);
  });

  it("opens readable, with the node that matters", () => {
    const node = { x: 1700, y: 800, width: 100, height: 36 };
    const { x, y, scale } = opening(graph, room, node);
    expect(scale).toBe(READABLE);
    expect(x + node.x * scale).toBeGreaterThanOrEqual(0);
    expect(x + (node.x + node.width) * scale).toBeLessThanOrEqual(room.width);
    expect(y + (node.y + node.height) * scale).toBeLessThanOrEqual(room.height);
  });

  it.each([
    ["in", 1.25],
    ["out", 0.8],
  ])("is zoomed %s around a point, which stays", (_, factor) => {
    const before = { x: -120, y: -40, scale: 0.8 };
    const at = { x: 200, y: 90 };
    const after = zoomed(before, factor, at, graph, room);
    expect((at.x - after.x) / after.scale).toBeCloseTo((at.x - before.x) / before.scale);
    expect((at.y - after.y) / after.scale).toBeCloseTo((at.y - before.y) / before.scale);
  });

  it("is zoomed out until all is seen, and no further", () => {
    const out = zoomed({ x: 0, y: 0, scale: 0.31 }, 0.1, { x: 0, y: 0 }, { width: 9000, height: 900 }, room);
    expect(out.scale).toBeCloseTo(600 / 9000);
  });

  it("does not move for a node that is seen", () => {
    const view = fitted(graph, room);
    expect(showing(view, { x: 1000, y: 400, width: 100, height: 36 }, graph, room)).toBe(view);
  });
});
