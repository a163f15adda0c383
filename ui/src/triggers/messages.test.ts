import { expect, it } from "vitest";
import { messages as schedule } from "../screens/scheduleForm/messages";
import { messages as submit } from "../screens/submit/messages";
import { messages as triggers } from "./messages";

it.each(["en", "ja"] as const)("one name for the time limit in all forms: %s", (language) => {
  const names = [triggers, submit, schedule].map((each) => each[language].timeout);
  expect(new Set(names).size).toBe(1);
});
