import { afterEach, describe, expect, it } from "vitest";
import { codeText, reasonText } from "../api/agentCodes";
import { Problem } from "../api/problem";
import { languageChoice } from "../i18n/language";
import { changes, draftOf, EMPTY, newRequest } from "../screens/requestForm/draft";
import {
  groups,
  momentOf,
  questionOnly,
  questionText,
  reasonOf,
  webAddress,
  withoutChoices,
} from "./request";
import type { AgentRequest } from "./requestApi";

const request = (id: string, fields: Partial<AgentRequest> = {}): AgentRequest =>
  ({
    id,
    title: id,
    priority: "P2",
    status: "queued",
    tags: [],
    updated_at: "2026-11-17T12:00:00+09:00",
    ...fields,
  }) as AgentRequest;

describe("the board", () => {
  it("is ordered by status, priority and time", () => {
    const board = groups([
      request("done", { status: "done" }),
      request("low", { priority: "P3" }),
      request("old", { updated_at: "2026-11-17T11:00:00+09:00" }),
      request("new", { updated_at: "2026-11-17T03:30:00Z" }),
      request("top", { priority: "P0" }),
      request("asks", { status: "needs_input" }),
      request("runs", { status: "running" }),
    ]);
    expect(board.map(({ status, items }) => [status, ...items.map(({ id }) => id)].join(" "))).toEqual([
      "running runs",
      "needs_input asks",
      "queued top new old low",
      "done done",
    ]);
  });
});

describe("a question", () => {
  const asked = "Why: so?\n\nWhy: two\n\nAnswer: one\n\nChoices: ISO / US";
  it("has its labels in the language of the page", () => {
    expect(questionText(asked, "ja")).toBe("Why: so?\n\n理由: two\n\n回答の形式: one\n\n選択肢: ISO / US");
    expect(questionText(asked, "en")).toBe(
      "Why: so?\n\nWhy: two\n\nExpected answer: one\n\nChoices: ISO / US",
    );
  });

  it("is shown alone in a list, and without choices that are buttons", () => {
    expect(questionOnly(asked)).toBe("Why: so?");
    expect(withoutChoices(asked)).toBe("Why: so?\n\nWhy: two\n\nAnswer: one");
    expect(withoutChoices("Which?")).toBe("Which?");
  });
});

describe("what a file of a person may contain", () => {
  it("is a link only if a browser may open it", () => {
    expect(webAddress("https://github.com/o/r/compare/main...ai/x?expand=1")).not.toBeNull();
    for (const bad of ["javascript:alert(1)", "data:text/html,x", " https://x", "//x", "", null])
      expect(webAddress(bad)).toBeNull();
  });

  it("may be a time that is none", () => {
    expect(momentOf("2026-11-17T12:00:00+09:00")).toBe(1794884400);
    for (const bad of ["soon", "", null, undefined]) expect(momentOf(bad)).toBeNull();
  });
});

describe("a reason of the gateway", () => {
  afterEach(() => languageChoice.set("en"));

  it("may begin with a code", () => {
    expect(reasonOf("PUSH_FAILED: origin: no\nline 2")).toEqual({
      code: "PUSH_FAILED",
      text: "origin: no\nline 2",
    });
    for (const text of ["its run was deleted", "Push_failed: x", "AB: x", ""])
      expect(reasonOf(text)).toEqual({ code: null, text });
  });

  it("says the same in both languages: what happened, and the cure", () => {
    languageChoice.set("en");
    expect(reasonText("RETRY_EXCEEDED")).toEqual({
      title: "The retry limit was reached.",
      cure: "Make the request more specific, and rerun it.",
    });
    expect(reasonText("PUSH_FAILED")).toEqual({ title: "The push failed.", cure: null });
    languageChoice.set("ja");
    expect(reasonText("RETRY_EXCEEDED")).toEqual({
      title: "再試行の上限に達しました。",
      cure: "要望を具体的にして再実行してください。",
    });
    expect(reasonText("SOMETHING_NEW")).toBeNull();
  });

  it("is explained in Japanese, if its code is known", async () => {
    const response = () =>
      Response.json(
        { error: { code: "PUSH_FAILED", message: "origin: no", details: { hint: "Try it" } } },
        { status: 409 },
      );
    languageChoice.set("en");
    expect(codeText("PUSH_FAILED")).toBeNull();
    expect(await Problem.of(response())).toMatchObject({ title: "origin: no", detail: "Try it" });
    languageChoice.set("ja");
    expect(codeText("PUSH_FAILED")).toBe("プッシュできませんでした");
    for (const unknown of ["SOMETHING_NEW", "", null]) expect(codeText(unknown)).toBeNull();
    expect(await Problem.of(response())).toMatchObject({
      title: "プッシュできませんでした",
      detail: "origin: no",
      errId: "PUSH_FAILED",
    });
  });
});

describe("the form", () => {
  it("sends what was typed", () =>
    expect(newRequest({ ...EMPTY, title: " Fix it ", tags: "a, b、a,", want: "# Why\n" })).toEqual({
      title: "Fix it",
      priority: "P2",
      tags: ["a", "b"],
      want: { text: "# Why\n" },
    }));

  it("sends only what has changed", () => {
    const stored = draftOf({
      request: request("x", { tags: ["a"] }),
      content: { raw_md: "", sections: { want: "w", plan: null, report: null } },
    });
    expect(changes({ ...stored, priority: "P0" }, stored)).toEqual({ priority: "P0" });
    expect(changes({ ...stored, want: "v" }, stored)).toEqual({ want: { text: "v" } });
  });
});
