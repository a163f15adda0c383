import { describe, expect, it } from "vitest";
import type { Schemas } from "../../../api/client";
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
    expect(headlineOf(found, tasks)).toEqual({ text: null, tasks: ["pay"] });
  });

  it("keeps the reason, without the error that a task has", () => {
    const error = "task slow: took longer than 3 s";
    const found = finding("failed_timeout", `The time limit was exceeded: ${error}`, { error });
    expect(headlineOf(found, [failed("slow", { error: "took longer than 3 s" })])).toEqual({
      text: "The time limit was exceeded",
      tasks: ["slow"],
    });
  });

  it("has an error that no task has", () => {
    const found = finding("failed_outside_tasks", "The flow failed: no such file", { error: "no such file" });
    expect(headlineOf(found, [])).toEqual({ text: "The flow failed: no such file", tasks: [] });
  });
});

it("offers to answer a question once", () => {
  const action = (code: string) => ({ code, text: code, command: null, request: null });
  const codes = (given: string[]) => withoutTwins(given.map(action)).map(({ code }) => code);
  expect(codes(["questions", "answer", "cancel"])).toEqual(["answer", "cancel"]);
  expect(codes(["questions"])).toEqual(["questions"]);
});
