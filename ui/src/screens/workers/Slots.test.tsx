import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { Slots } from "./Slots";
import type { RunsById } from "./useWorkers";
import type { Worker } from "./workers";

const RUNS = new Map([["r1", { flow_name: "train", start_time: 1_000 }]]) as unknown as RunsById;
const worker = (state: string, busy = 1) =>
  ({
    state,
    slots: 1,
    slots_busy: busy,
    current_run_ids: busy > 0 ? ["r1"] : [],
    paused: false,
    draining: false,
  }) as unknown as Worker;
const shown = (of: Worker) => render(<Slots worker={of} runs={RUNS} />).container.textContent ?? "";

it("shows what a connected worker executes, and for how long", () => {
  const text = shown(worker("RUNNING"));
  expect(text).toContain("1 of 1 busy");
  expect(text).toMatch(/train\d+d/);
});

it("shows the last known runs of a disconnected worker, which has no busy slot and no running clock", () => {
  expect(shown(worker("DISCONNECTED"))).toBe("Runs when last seentrain");
  expect(screen.getByRole("link", { name: "train" }).getAttribute("href")).toContain("r1");
});

it("shows nothing of a disconnected worker that had no run", () => {
  expect(shown(worker("DISCONNECTED", 0))).toBe("");
});
