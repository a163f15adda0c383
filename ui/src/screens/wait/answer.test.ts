import { describe, expect, it } from "vitest";
import { Problem } from "../../api/problem";
import { fieldOf, isShown } from "../../schemaForm/fields";
import { inputModes } from "./AnswerEditor";
import { columnsOf } from "./JsonView";
import { errorsByField } from "./useAnswering";
import { nameOf } from "./wait";

describe("an error of the gateway", () => {
  it("is shown at its field", () => {
    const fields = [
      { field: "payload.lines.0.amount", message: "too much" },
      { field: "payload", message: "not this" },
      { field: "note", message: "too long" },
    ];
    const told = errorsByField(new Problem("", "", 422, null, fields));
    expect(Object.fromEntries(told)).toEqual({
      "lines.0.amount": "too much",
      "": "not this",
      note: "too long",
    });
  });

  it("or above the form, without such a field", () => {
    const line = { type: "object", properties: { amount: { type: "number" } } };
    const form = fieldOf({ type: "object", properties: { lines: { type: "array", items: line } } });
    expect(isShown(form, "")).toBe(true);
    expect(isShown(form, "lines.3.amount")).toBe(true);
    expect(isShown(form, "lines.first")).toBe(false);
    expect(isShown(form, "other")).toBe(false);
  });
});

describe("an answer as JSON", () => {
  it("has an outline, also behind a reference", () => {
    const Pay = { type: "object", properties: { amount: { type: "number" } }, required: ["amount"] };
    const { form, json } = inputModes({ $ref: "#/$defs/Pay", $defs: { Pay } });
    expect(form?.shape.kind).toBe("object");
    expect(json.shape).toEqual({ kind: "json", takes: [{ outline: '{"amount": number}' }] });
  });

  it("may be anything without a schema", () =>
    expect(inputModes(null)).toMatchObject({ form: null, json: { shape: { kind: "json" } } }));
});

describe("a list is a table", () => {
  it("if its entries are similar and flat", () => {
    expect(columnsOf([{ a: 1, b: 2 }, { a: 3 }])).toEqual(["a", "b"]);
    expect(columnsOf([{ a: [1] }])).toBeNull();
    expect(columnsOf([{ a: 1 }, 2])).toBeNull();
    expect(columnsOf([{ a: 1 }, { b: 1 }, { c: 1 }])).toBeNull();
    expect(columnsOf([{}])).toBeNull();
  });
});

describe("a person", () => {
  it("has the best known name", () => {
    expect(nameOf({ name: "ada", api_key_id: "k1", ip: "10.0.0.1" })).toBe("ada");
    expect(nameOf({ name: null, api_key_id: null, ip: "10.0.0.1" })).toBe("10.0.0.1");
    expect(nameOf(null)).toBeNull();
  });
});
