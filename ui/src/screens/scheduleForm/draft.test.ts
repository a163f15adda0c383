import { describe, expect, it } from "vitest";
import { EMPTY_SPEC, type Schedule } from "../../schedules/schedule";
import { changeJson, createJson, type Draft, draftOf, EMPTY, inputOf, merged, specOf } from "./draft";

const draft = (fields: Partial<Draft> = {}): Draft => ({
  ...EMPTY,
  id: "nightly",
  flowName: "etl",
  ...fields,
});
const at = (iso: string) => Date.parse(iso) / 1000;

describe("the request of a form", () => {
  it("creates a schedule, with params as they were typed", () => {
    const json = createJson(draft({ params: '{"n": 9007199254740993}', timezone: "Asia/Tokyo" }));
    expect(json).toContain('"params":{"n": 9007199254740993}');
    expect(JSON.parse(json)).toMatchObject({
      schedule_id: "nightly",
      flow_name: "etl",
      workflow_yaml: null,
      spec: { cron: ["0 2 * * *"], timezone: "Asia/Tokyo", start_at: null, at: [] },
      overlap: "skip",
      paused: false,
    });
  });

  it("has intervals in seconds, and an entry per line", () => {
    const spec = specOf(
      draft({
        cron: "",
        every: "1.5",
        everyUnit: "hours",
        at: " 2026-12-24T18:00 \n\n",
        exclude: "2026-12-25",
      }),
    );
    expect(spec).toMatchObject({
      cron: [],
      every_sec: 5400,
      at: ["2026-12-24T18:00"],
      exclude: ["2026-12-25"],
    });
  });

  it("leaves what is no number for the gateway to refuse", () => {
    expect(specOf(draft({ every: "often" })).every_sec).toBe("often");
    expect(JSON.parse(createJson(draft({ remainingRuns: "x" }))).remaining_runs).toBe("x");
  });

  it("changes only what differs", () => {
    const base = draft();
    expect(JSON.parse(changeJson({ ...base, overlap: "allow_all" }, base, 7))).toEqual({
      overlap: "allow_all",
      revision: 7,
    });
    const tagged = draft({ tag: "gpu", tags: "a, b" });
    expect(JSON.parse(changeJson({ ...tagged, tag: "", tags: "" }, tagged, 7))).toEqual({
      tag: null,
      tags: null,
      revision: 7,
    });
    const changed = JSON.parse(changeJson({ ...base, kind: "yaml", yaml: "version: 1" }, base, 7));
    expect(changed).toEqual({ workflow_yaml: "version: 1", revision: 7 });
  });
});

describe("a stored schedule", () => {
  it("is typed in, and sent back unchanged", () => {
    const base = draftOf({
      schedule_id: "nightly",
      flow_name: "etl",
      workflow_yaml: null,
      params: {},
      tag: "default",
      tags: [],
      timeout_sec: null,
      overlap: "skip",
      catchup_window_sec: null,
      pause_on_failure: false,
      remaining_runs: null,
      paused: false,
      spec: {
        ...EMPTY_SPEC,
        every_sec: 7200,
        timezone: "Asia/Tokyo",
        start_at: at("2026-11-17T17:00:00Z"),
        at: [at("2026-11-17T17:00:00Z")],
      },
    } as unknown as Schedule);
    expect(base).toMatchObject({
      every: "2",
      everyUnit: "hours",
      startAt: "2026-11-18T02:00",
      at: "2026-11-18T02:00+09:00",
      cron: "",
    });
    expect(JSON.parse(changeJson(base, base, 3))).toEqual({ revision: 3 });
  });
});

describe("changes of somebody else", () => {
  it("are kept under the own ones", () => {
    const base = draft();
    const mine = { ...base, cron: "0 3 * * *", tag: "gpu" };
    const theirs = { ...base, cron: "0 4 * * *", overlap: "allow_all" as const };
    const { draft: both, both: conflicts } = merged(mine, base, theirs);
    expect(both).toMatchObject({ cron: "0 3 * * *", tag: "gpu", overlap: "allow_all" });
    expect(conflicts).toEqual(["cron"]);
  });
});

describe("an error of the gateway", () => {
  it.each([
    ["spec.cron[0]", "cron"],
    ["spec.at.2", "at"],
    ["spec.end_at", "endAt"],
    ["params.x", "params"],
    ["spec", "cron"],
    ["colour", null],
  ])("in %s is shown at %s", (field, input) => expect(inputOf(field)).toBe(input));
});
