import { describe, expect, it } from "vitest";
import { completionsFor } from "./completions";

const known = {
  flow: ["daily_sales", "clean_up", "monthly sales", "Sales"],
  status: ["FAILED", "RUNNING"],
  label: ["nightly"],
};
const texts = (field: string, caret = field.length) =>
  completionsFor(field, caret, known).map(({ text }) => text);

describe("completions of the filter field", () => {
  it("suggests names of filters", () => {
    expect(texts("fl")).toEqual(["flow:"]);
    expect(texts("customer st")).toEqual(["status:"]);
    expect(texts("")).toContain("label:");
  });

  it("suggests values after a name, those that begin with the text first", () => {
    expect(texts("flow:")).toHaveLength(4);
    expect(texts("flow:sal")).toEqual(["flow:Sales", "flow:daily_sales", 'flow:"monthly sales"']);
    expect(texts("status:fa")).toEqual(["status:FAILED"]);
    expect(texts("label:n")).toEqual(["label:nightly"]);
  });

  it("completes a quoted value", () => {
    expect(texts('flow:"monthly s')).toEqual(['flow:"monthly sales"']);
  });

  it("suggests nothing for other words", () => {
    expect(texts("flow:train_model customer")).toEqual([]);
    expect(texts("cause:schedule:nightly")).toEqual([]);
    expect(texts("http://x")).toEqual([]);
    expect(texts("worker:")).toEqual([]);
  });

  it("replaces the word at the caret and keeps the others", () => {
    const [first] = completionsFor("flow:da customer", 7, known);
    expect(first).toMatchObject({ field: "flow:daily_sales customer", caret: 17, isFilter: true });
    const [name] = completionsFor("st", 2, known);
    expect(name).toMatchObject({ field: "status:", caret: 7, isFilter: false });
  });
});
