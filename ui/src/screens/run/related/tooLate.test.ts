import { expect, it } from "vitest";
import type { Entry } from "../../../audit/auditApi";
import type { Run } from "../run";
import { isTooLate } from "./tooLate";

const ended = (status: string, end_time: number | null = 10) => ({ status, end_time }) as Run;
const entry = (at: number, action = "run.cancel", outcome: Entry["outcome"] = "accepted") => ({
  at,
  action,
  outcome,
});

it("is a cancel after the end of the run", () => {
  expect(isTooLate(entry(11), ended("COMPLETED"))).toBe(true);
  expect(isTooLate(entry(9), ended("COMPLETED"))).toBe(false);
  expect(isTooLate(entry(11), ended("CANCELLED"))).toBe(false);
  expect(isTooLate(entry(11), ended("RUNNING", null))).toBe(false);
  expect(isTooLate(entry(11, "run.rerun"), ended("COMPLETED"))).toBe(false);
  expect(isTooLate(entry(11, "run.cancel", "refused"), ended("COMPLETED"))).toBe(false);
});
