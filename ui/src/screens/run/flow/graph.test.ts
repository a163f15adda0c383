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
