import { expect, it } from "vitest";
import { type HumanWait, nextOf } from "./useQuestions";

const waits = ["a", "b", "c"].map((wait_id) => ({ wait_id }) as HumanWait);

it("the next question is the one with the next deadline, then the first", () => {
  expect(nextOf(waits, "a")?.wait_id).toBe("b");
  expect(nextOf(waits, "c")?.wait_id).toBe("a");
});

it("after an answer, the first of those that are left is next", () =>
  expect(nextOf(waits, "answered")?.wait_id).toBe("a"));

it("there is none after the only one", () => {
  expect(nextOf(waits.slice(0, 1), "a")).toBeNull();
  expect(nextOf([], "a")).toBeNull();
});
