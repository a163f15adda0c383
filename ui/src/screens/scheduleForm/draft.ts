/** What is typed into the form, and the request that it makes. */
import { formattedJson, jsonText } from "../../lib/exactJson";
import { OVERLAPS, type Overlap, type Schedule } from "../../schedules/schedule";
import { isoText, localText, viewerZone } from "../../schedules/zones";
import { parseParams, type TimeUnit, tagsIn, UNITS } from "../submit/submission";

export interface Draft {
  id: string;
  kind: "flow" | "yaml";
  flowName: string;
  params: string;
  yaml: string;
  tag: string;
  tags: string;
  timeoutSec: string;
  /** An expression per line. */
  cron: string;
  every: string;
  everyUnit: TimeUnit;
  anchor: string;
  /** A moment per line. */
  at: string;
  timezone: string;
  startAt: string;
  endAt: string;
  jitterSec: string;
  /** A cron expression or a date per line. */
  exclude: string;
  overlap: Overlap;
  catchupSec: string;
  pauseOnFailure: boolean;
  remainingRuns: string;
  paused: boolean;
}

export const EMPTY: Draft = {
  id: "",
  kind: "flow",
  flowName: "",
  params: "{}",
  yaml: "",
  tag: "",
  tags: "",
  timeoutSec: "",
  cron: "0 2 * * *",
  every: "",
  everyUnit: "minutes",
  anchor: "",
  at: "",
  timezone: viewerZone,
  startAt: "",
  endAt: "",
  jitterSec: "",
  exclude: "",
  overlap: "skip",
  catchupSec: "",
  pauseOnFailure: false,
  remainingRuns: "",
  paused: false,
};

const text = (value: number | null): string => (value === null ? "" : String(value));

export function draftOf(schedule: Schedule): Draft {
  const { spec } = schedule;
  const local = (at: number | null) => (at === null ? "" : localText(at, spec.timezone));
  return {
    id: schedule.schedule_id,
    kind: schedule.workflow_yaml === null ? "flow" : "yaml",
    flowName: schedule.flow_name,
    params: formattedJson(jsonText(schedule.params)),
    yaml: schedule.workflow_yaml ?? "",
    tag: schedule.tag,
    tags: schedule.tags.join(", "),
    timeoutSec: text(schedule.timeout_sec),
    cron: spec.cron.join("\n"),
    ...interval(spec.every_sec),
    anchor: local(spec.anchor),
    at: spec.at.map((each) => isoText(each, spec.timezone)).join("\n"),
    timezone: spec.timezone,
    startAt: local(spec.start_at),
    endAt: local(spec.end_at),
    jitterSec: spec.jitter_sec > 0 ? String(spec.jitter_sec) : "",
    exclude: spec.exclude.join("\n"),
    overlap: OVERLAPS.find((each) => each === schedule.overlap) ?? "skip",
    catchupSec: text(schedule.catchup_window_sec),
    pauseOnFailure: schedule.pause_on_failure,
    remainingRuns: text(schedule.remaining_runs),
    paused: schedule.paused,
  };
}

/** In the largest unit without a remainder. */
function interval(seconds: number | null): Pick<Draft, "every" | "everyUnit"> {
  if (seconds === null) return { every: "", everyUnit: "minutes" };
  const units = (Object.keys(UNITS) as TimeUnit[]).reverse();
  const everyUnit = units.find((unit) => seconds % UNITS[unit] === 0) ?? "seconds";
  return { every: String(seconds / UNITS[everyUnit]), everyUnit };
}

const lines = (typed: string): string[] =>
  typed
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

/** As typed, if it is no number: the gateway says what is wrong with it. */
const number = (typed: string): number | string | null => {
  const trimmed = typed.trim();
  if (trimmed === "") return null;
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
};

export function specOf(draft: Draft) {
  const every = number(draft.every);
  return {
    cron: lines(draft.cron),
    every_sec: typeof every === "number" ? every * UNITS[draft.everyUnit] : every,
    anchor: draft.anchor || null,
    at: lines(draft.at),
    timezone: draft.timezone.trim() || "UTC",
    start_at: draft.startAt || null,
    end_at: draft.endAt || null,
    jitter_sec: number(draft.jitterSec) ?? 0,
    exclude: lines(draft.exclude),
  };
}

/** The fields of the request as JSON texts: params are sent as typed, however long their numbers are. */
function fieldsOf(draft: Draft): Record<string, string> {
  const params = parseParams(draft.params);
  const tags = tagsIn(draft.tags);
  const fields = {
    flow_name: draft.flowName.trim(),
    workflow_yaml: draft.kind === "yaml" ? draft.yaml : null,
    // Null: the gateway's default.
    tag: draft.tag.trim() || null,
    tags: tags.length > 0 ? tags : null,
    timeout_sec: number(draft.timeoutSec),
    spec: specOf(draft),
    overlap: draft.overlap,
    catchup_window_sec: number(draft.catchupSec),
    pause_on_failure: draft.pauseOnFailure,
    remaining_runs: number(draft.remainingRuns),
  };
  return {
    ...Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, JSON.stringify(value)])),
    params: draft.kind === "flow" && "json" in params ? params.json : "{}",
  };
}

const objectText = (fields: Record<string, string>): string =>
  `{${Object.entries(fields)
    .map(([name, json]) => `${JSON.stringify(name)}:${json}`)
    .join(",")}}`;

/** The request that creates it. */
export const createJson = (draft: Draft): string =>
  objectText({
    schedule_id: JSON.stringify(draft.id.trim()),
    ...fieldsOf(draft),
    paused: String(draft.paused),
  });

/** The request that changes it: only what differs from `base`. */
export function changeJson(draft: Draft, base: Draft, revision: number): string {
  const before = fieldsOf(base);
  const changed = Object.entries(fieldsOf(draft)).filter(([name, json]) => json !== before[name]);
  return objectText({ ...Object.fromEntries(changed), revision: String(revision) });
}

export interface Merged {
  draft: Draft;
  /** What both have changed; the own value is kept. */
  both: (keyof Draft)[];
}

/** Own changes on top of those of others. */
export function merged(mine: Draft, base: Draft, theirs: Draft): Merged {
  const names = Object.keys(EMPTY) as (keyof Draft)[];
  const own = names.filter((name) => mine[name] !== base[name]);
  return {
    draft: { ...theirs, ...Object.fromEntries(own.map((name) => [name, mine[name]])) },
    both: own.filter((name) => theirs[name] !== base[name] && theirs[name] !== mine[name]),
  };
}

const FIELDS: Record<string, keyof Draft> = {
  schedule_id: "id",
  flow_name: "flowName",
  workflow_yaml: "yaml",
  params: "params",
  tag: "tag",
  tags: "tags",
  timeout_sec: "timeoutSec",
  "spec.cron": "cron",
  "spec.every_sec": "every",
  "spec.anchor": "anchor",
  "spec.at": "at",
  "spec.timezone": "timezone",
  "spec.start_at": "startAt",
  "spec.end_at": "endAt",
  "spec.jitter_sec": "jitterSec",
  "spec.exclude": "exclude",
  overlap: "overlap",
  catchup_window_sec: "catchupSec",
  pause_on_failure: "pauseOnFailure",
  remaining_runs: "remainingRuns",
  paused: "paused",
  // Nothing says when to run.
  spec: "cron",
};

/** The input that a field of the API belongs to: `spec.cron[0]` is in `cron`. */
export function inputOf(field: string): keyof Draft | null {
  const steps = field
    .replace(/\[\d+\]/g, "")
    .split(".")
    .filter((step) => !/^\d+$/.test(step));
  for (let length = steps.length; length > 0; length--) {
    const found = FIELDS[steps.slice(0, length).join(".")];
    if (found) return found;
  }
  return null;
}
