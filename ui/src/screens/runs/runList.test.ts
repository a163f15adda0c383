import { describe, expect, it } from "vitest";
import type { Ordering } from "./filters";
import {
  EMPTY,
  MAX_PENDING,
  newCount,
  type Run,
  type RunList,
  released,
  withChanges,
  withPage,
} from "./runList";

const NEWEST_FIRST: Ordering = { sort: "updated_at", ascending: false };

function run(run_id: string, updated_at: number, fields: Partial<Run> = {}): Run {
  return { run_id, updated_at, status: "RUNNING", flow_name: "etl", duration_sec: null, ...fields } as Run;
}

const listed = (cursor: string | null, ...runs: Run[]): RunList => withPage(EMPTY, runs, cursor);
const change = (list: RunList, ...runs: Run[]) =>
  withChanges(
    list,
    runs.map((each) => ({ run: each })),
    NEWEST_FIRST,
    { frozen: false },
  );

describe("a list of runs", () => {
  it("moves a changed run to its place", () => {
    const list = change(listed(null, run("c", 3), run("b", 2), run("a", 1)), run("a", 2.5));
    expect(list.order).toEqual(["c", "a", "b"]);
  });

  it("inserts new runs in order", () => {
    expect(change(listed(null, run("b", 2)), run("d", 4), run("a", 1), run("c", 3)).order).toEqual([
      "d",
      "c",
      "b",
      "a",
    ]);
  });

  it("leaves later rows to the next page", () => {
    const list = change(listed("more", run("c", 3), run("b", 2)), run("a", 1));
    expect(list.order).toEqual(["c", "b"]);
    expect(withPage(list, [run("b", 2), run("a", 1)], null).order).toEqual(["c", "b", "a"]);
  });

  it("is frozen while scrolled, and updates rows in place", () => {
    const before = listed(null, run("b", 2), run("a", 1));
    const frozen = withChanges(
      before,
      [{ run: run("a", 5, { status: "FAILED" }) }, { run: run("n", 6) }],
      NEWEST_FIRST,
      { frozen: true },
    );
    expect(frozen.order).toEqual(["b", "a"]);
    expect(frozen.rows.get("a")?.status).toBe("FAILED");
    expect(newCount(frozen)).toBe(1);
    expect(released(frozen, NEWEST_FIRST).order).toEqual(["n", "a", "b"]);
  });

  it("bounds pending changes, and reports an overflow", () => {
    const changes = (from: number, count: number) =>
      [...Array(count).keys()].map((at) => ({ run: run(`n${from + at}`, from + at) }));
    const full = withChanges(listed(null, run("a", 1)), changes(2, MAX_PENDING), NEWEST_FIRST, {
      frozen: true,
    });
    expect(full.overflowed).toBe(false);
    const again = withChanges(full, changes(2, 1), NEWEST_FIRST, { frozen: true });
    expect(again.overflowed).toBe(false);
    const over = withChanges(full, [...changes(MAX_PENDING + 2, 3), { run: run("a", 9_000) }], NEWEST_FIRST, {
      frozen: true,
    });
    expect(over.overflowed).toBe(true);
    expect(newCount(over)).toBe(MAX_PENDING);
    expect(over.rows.get("a")?.updated_at).toBe(9_000);
    const moving = withChanges(EMPTY, changes(0, MAX_PENDING + 1), NEWEST_FIRST, { frozen: false });
    expect(moving.overflowed).toBe(false);
    expect(moving.order).toHaveLength(MAX_PENDING + 1);
  });

  it("drops removed runs", () => {
    const list = listed(null, run("b", 2), run("a", 1));
    const after = withChanges(list, [{ removed: "a" }, { removed: "x" }], NEWEST_FIRST, { frozen: true });
    expect(after.order).toEqual(["b"]);
  });

  it("keeps a run that was restored", () => {
    const after = withChanges(
      listed(null, run("a", 1)),
      [{ removed: "a" }, { run: run("a", 2) }],
      NEWEST_FIRST,
      { frozen: false },
    );
    expect(after.order).toEqual(["a"]);
  });

  it("sorts a run without a value as the smallest", () => {
    const longest: Ordering = { sort: "duration", ascending: false };
    const list = withChanges(
      EMPTY,
      [{ run: run("a", 1) }, { run: run("b", 1, { duration_sec: 3 }) }],
      longest,
      {
        frozen: false,
      },
    );
    expect(list.order).toEqual(["b", "a"]);
  });
});
