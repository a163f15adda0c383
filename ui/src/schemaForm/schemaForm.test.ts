import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ExactNumber, parseJson } from "../lib/exactJson";
import { fieldOf, initialOf, schemaLike } from "./fields";
import { jsonIn, momentIn, numberIn } from "./inputs";
import { type Json, type Schema, same, withMember } from "./json";
import { problemsOf } from "./validation";

const PAYMENT = {
  // As Pydantic writes it.
  $defs: {
    Line: {
      type: "object",
      properties: {
        text: { type: "string", title: "Text" },
        amount: { type: "number", exclusiveMinimum: 0 },
      },
      required: ["text", "amount"],
    },
    Urgency: { enum: ["low", "high"], type: "string" },
  },
  type: "object",
  properties: {
    amount: { type: "number", exclusiveMinimum: 0, maximum: 10_000, description: "in EUR" },
    account: { type: "string", pattern: "^\\d{4}$" },
    urgency: { allOf: [{ $ref: "#/$defs/Urgency" }], default: "low" },
    due: { anyOf: [{ type: "string", format: "date" }, { type: "null" }], default: null, title: "Due" },
    lines: { type: "array", items: { $ref: "#/$defs/Line" }, minItems: 1 },
    tags: { type: "array", uniqueItems: true, items: { enum: ["a", "b"] } },
    note: { type: "string", maxLength: 2000 },
  },
  required: ["amount", "account", "lines"],
} satisfies Schema;

const shapeIn = (schema: Schema) => fieldOf(schema).shape;

describe("a schema becomes fields", () => {
  it("of an object with references", () => {
    const { shape } = fieldOf(PAYMENT);
    if (shape.kind !== "object") throw new Error(shape.kind);
    const kinds = shape.fields.map(({ name, required, shape: { kind } }) => [name, required, kind]);
    expect(kinds).toEqual([
      ["amount", true, "number"],
      ["account", true, "text"],
      ["urgency", false, "choice"],
      ["due", false, "text"],
      ["lines", true, "list"],
      ["tags", false, "several"],
      ["note", false, "text"],
    ]);
    expect(shape.fields[0]).toMatchObject({ description: "in EUR", shape: { above: 0, max: 10_000 } });
    expect(shape.fields[3]).toMatchObject({ title: "Due", nullable: true, shape: { as: "date" } });
    expect(shape.fields[6]).toMatchObject({ shape: { as: "multiline" } });
  });

  it.each<[string, Schema, unknown]>([
    ["a boolean", { type: "boolean" }, { kind: "boolean" }],
    ["no type", {}, { kind: "json" }],
    ["anything", true, { kind: "json" }],
    ["several types", { type: ["string", "number"] }, { kind: "json" }],
    ["a map", { type: "object", additionalProperties: { type: "number" } }, { kind: "json" }],
    ["a tuple", { type: "array", prefixItems: [{}] }, { kind: "json" }],
    ["alternatives", { anyOf: [{ type: "string" }, { type: "number" }] }, { kind: "json" }],
    ["several conditions", { type: "object", properties: { a: {} }, allOf: [{}, {}] }, { kind: "json" }],
    ["a reference to nothing", { $ref: "#/$defs/none" }, { kind: "json" }],
    ["null or text", { type: ["string", "null"] }, { kind: "text", as: "text" }],
    ["media", { type: "string", contentMediaType: "text/markdown" }, { kind: "text", as: "multiline" }],
    [
      "named constants",
      { oneOf: [{ const: 1, title: "One", description: "the first" }, { const: 2 }] },
      {
        kind: "choice",
        choices: [
          { value: 1, label: "One", hint: "the first" },
          { value: 2, label: "2" },
        ],
      },
    ],
  ])("%s", (_, schema, shape) => expect(shapeIn(schema)).toMatchObject(shape as object));

  it("up to a maximum depth", () => {
    const node: Schema = { type: "object", properties: { next: { $ref: "#" } } };
    expect(JSON.stringify(fieldOf(node)).length).toBeLessThan(5_000);
    expect(shapeIn({ $ref: "#" })).toEqual({ kind: "json" });
  });

  it("with its defaults", () => {
    expect(initialOf(fieldOf(PAYMENT))).toEqual({ urgency: "low", lines: [] });
    expect(initialOf(fieldOf({ type: "boolean" }))).toBeUndefined();
    const nested: Schema = { type: "object", required: ["a"], properties: { a: PAYMENT, b: PAYMENT } };
    expect(initialOf(fieldOf(nested))).toEqual({ a: { urgency: "low", lines: [] } });
  });
});

describe("JSON input", () => {
  it("shows an outline of each alternative", () => {
    const card = {
      title: "Card",
      description: "charged at once",
      properties: { number: { type: "string" } },
    };
    const bank = { type: "object", required: ["iban"], properties: { iban: { $ref: "#/$defs/Iban" } } };
    const field = fieldOf({
      description: "How to pay",
      oneOf: [card, bank, { enum: ["cash", null] }],
      $defs: { Iban: { type: "string", minLength: 15 } },
    });
    expect(field).toMatchObject({ description: "How to pay", shape: { kind: "json" } });
    expect(field.shape).toEqual({
      kind: "json",
      takes: [
        { outline: '{"number"?: string}', title: "Card", description: "charged at once" },
        { outline: '{"iban": string}' },
        { outline: '"cash" | null' },
      ],
    });
  });

  it.each<[Schema, string]>([
    [{ type: "object", additionalProperties: { type: "number" } }, "{…: number}"],
    [
      { type: "array", prefixItems: [{ type: "string" }, { type: ["number", "null"] }] },
      "[string, number | null]",
    ],
    [{ type: ["string", "number"] }, "string | number"],
    [
      {
        oneOf: [
          { type: "string", minLength: 3 },
          { type: "string", pattern: "^a" },
        ],
      },
      "string",
    ],
  ])("%j", (schema, outline) => expect(shapeIn(schema)).toEqual({ kind: "json", takes: [{ outline }] }));
});

describe("a constant", () => {
  const offer: Schema = {
    properties: { kind: { const: "gift" }, wrap: { const: true } },
    required: ["kind"],
  };

  it("is set if required, and offered otherwise", () =>
    expect(initialOf(fieldOf(offer))).toEqual({ kind: "gift" }));
});

describe("a value without a schema", () => {
  it("is edited by its type", async () => {
    const value = { title: "x", body: "a\nb", count: 2, ok: true, tags: ["a"], mixed: [1, "a"], none: null };
    const { shape } = fieldOf(schemaLike(value));
    if (shape.kind !== "object") throw new Error(shape.kind);
    const kinds = shape.fields.map(({ shape: { kind } }) => kind);
    expect(kinds).toEqual(["text", "text", "number", "boolean", "list", "json", "json"]);
    expect((await problemsOf(value, schemaLike(value), "en")).size).toBe(0);
  });
});

describe("errors are reported at their path", () => {
  const told = async (value: Json | undefined, schema: Schema | null = PAYMENT) =>
    Object.fromEntries(await problemsOf(value, schema, "en"));

  it("for missing and invalid values", async () => {
    expect(
      await told({ amount: 20_000, account: "49", lines: [{ text: "a", amount: 0 }, { text: 1 }] }),
    ).toEqual({
      amount: "At most 10,000.",
      account: "Must match ^\\d{4}$.",
      "lines.0.amount": "More than 0.",
      "lines.1.text": "Must be of type string.",
      "lines.1.amount": "This field is required.",
    });
    expect(await told({ amount: "many", account: "4930", lines: [] })).toEqual({
      amount: "Must be a number.",
      lines: "At least 1 entry.",
    });
    expect(await told(undefined)).toEqual({ "": "This field is required." });
    expect(await told({ a: 1 }, { type: "object", additionalProperties: false })).toEqual({
      a: "Unknown field.",
    });
  });

  it("in the reader's language", async () => {
    const found = await problemsOf(0, { type: "integer", minimum: 1 }, "ja");
    expect(found.get("")).toBe("1 以上にしてください。");
  });

  it("not for valid values, and not for what only the gateway checks", async () => {
    expect(await told({ amount: 1, account: "4930", due: null, lines: [{ text: "a", amount: 1 }] })).toEqual(
      {},
    );
    expect(await told(false, { type: "boolean" })).toEqual({});
    expect(await told("x", { type: "string", pattern: "(?P<a>x)" })).toEqual({});
    expect(await told("x", { type: "string", format: "hostname-of-mars" })).toEqual({});
    expect(await told("x", null)).toEqual({});
  });
});

describe("numbers longer than JavaScript's, where the browser can send them", () => {
  const engine = JSON as { rawJSON?: (text: string) => unknown };
  const { rawJSON } = engine;
  beforeEach(() => {
    engine.rawJSON = (text) => text;
  });
  afterEach(() => {
    engine.rawJSON = rawJSON;
  });
  const LONG = new ExactNumber("12345678901234567890");
  const NEXT = new ExactNumber("12345678901234567891");
  const told = async (value: Json, schema: string) =>
    Object.fromEntries(await problemsOf(value, parseJson(schema) as Schema, "en"));

  it("can be chosen", async () => {
    expect(await told(LONG, `{"enum": [${LONG}, 1]}`)).toEqual({});
    expect(await told(LONG, `{"const": ${LONG}}`)).toEqual({});
    expect(await told(2, `{"enum": [${LONG}, 1]}`)).toEqual({ "": "Not one of the allowed values." });
  });

  it("are not rejected because of rounding", async () => {
    expect(await told([LONG, NEXT], '{"uniqueItems": true}')).toEqual({});
    expect(await told(NEXT, `{"exclusiveMinimum": ${LONG}}`)).toEqual({});
    expect(await told(LONG, '{"multipleOf": 10}')).toEqual({});
    expect(await told([1, 1], '{"uniqueItems": true}')).toEqual({ "": "Entries must be unique." });
  });

  it("are bounds, and reported exactly", async () => {
    const schema = `{"type": "integer", "minimum": -${LONG}, "maximum": ${LONG}}`;
    expect(shapeIn(parseJson(schema) as Schema)).toMatchObject({ min: `-${LONG}`, max: `${LONG}` });
    expect(await told(new ExactNumber("99999999999999999999"), schema)).toEqual({ "": `At most ${LONG}.` });
  });
});

describe("typed values", () => {
  it.each([
    ["", undefined],
    [" 12 ", 12],
    ["1.", 1],
    ["-0.5e2", -50],
    ["1e999", "1e999"],
    ["0x10", "0x10"],
    ["many", "many"],
  ])("as a number: %j", (text, value) => expect(numberIn(text)).toBe(value));

  it("as JSON", () => {
    expect(jsonIn(" null ")).toEqual({ value: null });
    expect(jsonIn("")).toEqual({ value: undefined });
    expect(jsonIn("{a").why).toBeTruthy();
    expect(jsonIn('{"a": [1e400]}')).toEqual({ value: undefined, tooLarge: true });
    expect(jsonIn("-1e400").tooLarge).toBe(true);
  });

  it("as a timestamp, or as text if invalid", async () => {
    expect(momentIn("")).toBeUndefined();
    expect(momentIn("2026-11-15T10:00")).toBe(new Date("2026-11-15T10:00").toISOString());
    expect(momentIn("12345-01-01T00:00")).toBe("12345-01-01T00:00");
    const told = await problemsOf("12345-01-01T00:00", { type: "string", format: "date-time" }, "en");
    expect(told.get("")).toBe("Must be in the format date-time.");
  });

  it("never as a rounded number", async () => {
    expect(numberIn("9007199254740991")).toBe(Number.MAX_SAFE_INTEGER);
    expect(numberIn("9007199254740993")).toBe("9007199254740993");
    expect(jsonIn('{"id": [12345678901234567890]}')).toEqual({
      value: undefined,
      inexact: "12345678901234567890",
    });
    expect(jsonIn('{"id": "12345678901234567890", "x": 1e300}').inexact).toBeUndefined();
    for (const type of ["integer", "number", ["integer", "null"]]) {
      const found = await problemsOf(
        { id: "9007199254740993" },
        { properties: { id: { type } } } as Schema,
        "en",
      );
      expect(found.get("id")).toContain("9007199254740993 has more digits");
    }
    const text = await problemsOf(
      { id: "9007199254740993" },
      { properties: { id: { type: "boolean" } } },
      "en",
    );
    expect(text.get("id")).not.toContain("digits");
  });

  it("changes one member, and compares by value", () => {
    expect(withMember({ a: 1, b: 2 }, "a", undefined)).toEqual({ b: 2 });
    expect(same({ a: [1, { b: null }] }, { a: [1, { b: null }] })).toBe(true);
    expect(same({ a: 1 }, { b: 1 })).toBe(false);
    expect(same([1], { 0: 1 })).toBe(false);
  });
});
