import { describe, expect, it } from "vitest";
import type { Schemas } from "../../../api/client";
import { exactTime } from "../../../i18n/time";
import type { Task, TaskRecord } from "../run";
import { withoutTwins } from "./ActionItem";
import { headlineOf } from "./headline";

const finding = (code: string, message: string, evidence: Record<string, unknown> = {}) =>
  ({ code, message, evidence }) as Schemas["FindingView"];
const failed = (name: string, record: TaskRecord): Task => ({ name, state: "FAILED", record });

describe("the headline", () => {
  it("names the failed task; its error stands with the task", () => {
    const found = finding("failed_execution_error", "Task pay failed: ValueError: no");
    const tasks = [failed("pay", { traceback: "Traceback ...\nValueError: no" })];
    expect(headlineOf([found], tasks)).toEqual({ text: null, tasks: ["pay"], error: null });
  });

  it("keeps the reason, without the error that a task has", () => {
    const error = "task slow: took longer than 3 s";
    const found = finding("failed_timeout", `The time limit was exceeded: ${error}`, { error });
    expect(headlineOf([found], [failed("slow", { error: "took longer than 3 s" })])).toEqual({
      text: "The time limit was exceeded",
      tasks: ["slow"],
      error: null,
    });
  });

  it("has an error that no task has", () => {
    const found = finding("failed_outside_tasks", "The flow failed: no such file", { error: "no such file" });
    expect(headlineOf([found], [])).toEqual({
      text: "The flow failed: no such file",
      tasks: [],
      error: null,
    });
  });

  it("says in the reader's language which task failed, if only the run has the error", () => {
    const error = "task resize_7: OSError: no space";
    const found = finding("failed_other", "Task resize_7 failed: OSError: no space", { error });
    const failing = [{ name: "resize_7", state: "FAILED", record: {} } as Task];
    expect(headlineOf([found], failing)).toEqual({
      text: null,
      tasks: ["resize_7"],
      error: "OSError: no space",
    });
    expect(headlineOf([found], []).text).toBe(found.message);
  });

  it("names everything that the run waits for, with the times of the page", () => {
    const sleep = finding("sleeping", "gateway", { waits: [{ task: "cool" }], ends_at: 0 });
    const signal = finding("waiting_signal", "gateway", { waits: [{ task: "pay" }], topics: ["paid"] });
    const { text } = headlineOf([sleep, signal, finding("time_limit", "The limit is 1h.")], []);
    expect(text).toBe(`cool sleeps until ${exactTime(0, "en")}.\npay waits for the signal paid.`);
  });

  it("is the gateway's, if its evidence is that of another version", () =>
    expect(headlineOf([finding("sleeping", "It sleeps.")], []).text).toBe("It sleeps."));
});

it("offers to answer a question once", () => {
  const action = (code: string) => ({ code, text: code, command: null, request: null });
  const codes = (given: string[]) => withoutTwins(given.map(action)).map(({ code }) => code);
  expect(codes(["questions", "answer", "cancel"])).toEqual(["answer", "cancel"]);
  expect(codes(["questions"])).toEqual(["questions"]);
});
