import { render } from "@testing-library/react";
import { expect, it } from "vitest";
import { EMPTY_SPEC, type Schedule } from "../../schedules/schedule";
import { ScheduleFacts } from "./ScheduleFacts";

const schedule = (over: Partial<Schedule>): Schedule =>
  ({
    flow_name: "report",
    spec: { ...EMPTY_SPEC, cron: ["0 6 * * *"], jitter_sec: 3_600 },
    next_times: [],
    overlap: "skip",
    catchup_window_sec: 600,
    remaining_runs: null,
    timeout_sec: null,
    tag: "",
    tags: [],
    paused: false,
    note: "Agreed with finance",
    updated_at: 0,
    ...over,
  }) as unknown as Schedule;
const shown = (over: Partial<Schedule> = {}) =>
  render(<ScheduleFacts schedule={schedule(over)} />).container.textContent;

it("has the note of an active schedule; that of a paused one says why it is paused, above", () => {
  expect(shown()).toContain("NoteAgreed with finance");
  expect(shown({ paused: true })).not.toContain("Agreed with finance");
  expect(shown({ note: "" })).not.toContain("Note");
});

it("has configured times without zero parts", () => {
  expect(shown()).toMatch(/up to 1hIf.*Catch-up window10m/);
});
