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

it("shows a flag by its name, and how a trigger ended in words", () => {
  expect(shown({ created: true })).toBe("New");
  expect(shown({ created: false, outcome: "started" })).toBe("New: noStart: started");
  act(() => languageChoice.set("ja"));
  expect(shown({ created: true })).toBe("新規");
  expect(shown({ outcome: "started" })).toBe("起動: 開始");
});

it("shows a decision of a later version as it is", () => {
  expect(shown({ decision: "postponed" })).toBe("Decision: postponed");
});
