import { act, cleanup, render } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { languageChoice } from "../../i18n/language";
import { AnswerView } from "./AnswerView";

afterEach(() => {
  cleanup();
  act(() => languageChoice.set("en"));
});

const shown = (value: unknown) => render(<AnswerView value={value} />).container.textContent;

it("shows a yes or no in words", () => {
  expect([shown(true), shown(false)]).toEqual(["Yes", "No"]);
  act(() => languageChoice.set("ja"));
  expect([shown(true), shown(false)]).toEqual(["はい", "いいえ"]);
});

it("shows other answers as they are", () => {
  expect([shown("true"), shown(3), shown(null)]).toEqual(["true", "3", "null"]);
});
