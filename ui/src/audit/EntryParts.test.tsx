import { act, cleanup, render } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { languageChoice } from "../i18n/language";
import type { Entry } from "./auditApi";
import { EntryDetails } from "./EntryParts";

afterEach(() => {
  cleanup();
  act(() => languageChoice.set("en"));
});

const shown = (details: object) =>
  render(<EntryDetails entry={{ details } as Entry} />).container.textContent;

it("shows decisions and configured times in the language of the page", () => {
  expect(shown({ decision: "edited", for_sec: 7_200 })).toBe("Decision: editedFor: 2h");
  act(() => languageChoice.set("ja"));
  expect(shown({ decision: "edited", keep_sec: 3_600 })).toBe("判断: 修正旧シークレットの有効期間: 1時間");
});

it("shows a flag as a word, and what a trigger did", () => {
  expect(shown({ created: true, note: "after the move" })).toBe("NewNote: after the move");
  expect(shown({ paused: false, outcome: "buffered" })).toBe("Paused: noRun: starts after the earlier run");
  act(() => languageChoice.set("ja"));
  expect(shown({ created: true, outcome: "started" })).toBe("新規run: 開始");
});

it("shows a decision of a later version as it is", () => {
  expect(shown({ decision: "postponed" })).toBe("Decision: postponed");
});
