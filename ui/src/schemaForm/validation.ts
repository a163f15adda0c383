/** Validation before sending. Anything unknown here passes; the gateway validates again. */
import type { OutputUnit } from "@cfworker/json-schema";
import type { Language } from "../i18n/language";
import { translator } from "../i18n/messages";
import { isInexact, sendsExact } from "../lib/exactJson";
import { dotted, exactIn, isObject, type Json, rounded, type Schema } from "./json";
import { messages } from "./messages";
import { at } from "./references";
import { schemaErrors } from "./schemaErrors";

/** By path, as in errors of the gateway: `lines.0.amount`; `""` is the whole value. */
export type Problems = ReadonlyMap<string, string>;

export const NO_PROBLEMS: Problems = new Map();

// Other formats are checked by the gateway, which may accept more than this library.
const KNOWN_FORMATS = new Set(["email", "date", "date-time"]);
const AROUND = new Set([
  "$ref",
  "allOf",
  "anyOf",
  "oneOf",
  "if",
  "items",
  "prefixItems",
  "properties",
  "patternProperties",
  "additionalProperties",
  "unevaluatedProperties",
  "dependentSchemas",
]);

// Keywords that may reject only the rounded number.
const LOST_BY_ROUNDING = new Set([
  "uniqueItems",
  "multipleOf",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "not",
]);

export async function problemsOf(
  value: Json | undefined,
  schema: Schema | null,
  language: Language,
): Promise<Problems> {
  if (value === undefined) return new Map([["", translator(messages, language)("missing")]]);
  const [unsent] = sendsExact() ? [] : exactIn(value);
  if (unsent) return new Map([["", translator(messages, language)("inexact", { number: unsent.source })]]);
  if (schema === null || schema === true) return NO_PROBLEMS;
  const found = new Map<string, string>();
  const check = { value: rounded(value), schema: rounded(schema as Json) as Schema };
  for (const error of await schemaErrors(check)) {
    if (AROUND.has(error.keyword) || mayBeRounding(error, value)) continue;
    const wanted = wantedBy(error, schema);
    if (error.keyword === "format" && !KNOWN_FORMATS.has(String(wanted))) continue;
    const place = placeOf(error);
    if (!found.has(place))
      found.set(place, inexact(error, value, language) ?? sentence(error, wanted, language));
  }
  return found;
}

const pathOf = ({ instanceLocation }: OutputUnit): string[] =>
  instanceLocation
    .split("/")
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));

/** The rejected value. */
function valueAt(unit: OutputUnit, root: Json): Json | undefined {
  let found: Json | undefined = root;
  for (const part of pathOf(unit))
    found = Array.isArray(found) ? found[Number(part)] : isObject(found) ? found[part] : undefined;
  return found;
}

/** Whether only the rounded number may be invalid: two long numbers can become equal. */
const mayBeRounding = (unit: OutputUnit, root: Json): boolean =>
  LOST_BY_ROUNDING.has(unit.keyword) && exactIn(valueAt(unit, root)).length > 0;

/** A number with too many digits is a text here. */
function inexact(unit: OutputUnit, root: Json, language: Language): string | null {
  if (unit.keyword !== "type") return null;
  const found = valueAt(unit, root);
  const isNumber = /"(integer|number)"/.test(unit.error);
  if (!isNumber || typeof found !== "string" || !isInexact(found)) return null;
  return translator(messages, language)("inexact", { number: found });
}

function placeOf(unit: OutputUnit): string {
  const { keyword, error } = unit;
  const path = pathOf(unit);
  const missing = keyword === "required" ? /property "(.*)"/s.exec(error)?.[1] : undefined;
  return dotted(missing === undefined ? path : [...path, missing]);
}

/** The value of the violated keyword: the bound, the length. */
function wantedBy({ keywordLocation }: OutputUnit, root: Schema): unknown {
  let found: unknown = root;
  for (const part of keywordLocation.split("/").slice(1)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    found = (found as Record<string, unknown> | undefined)?.[name];
    if (name === "$ref" && typeof found === "string") found = at(root, found);
  }
  return found;
}

function sentence({ keyword, error }: OutputUnit, value: unknown, language: Language): string {
  const t = translator(messages, language);
  const wanted = typeof value === "number" ? value : String(value);
  switch (keyword) {
    case "required":
      return t("missing");
    case "type":
      return value === "number" || value === "integer" ? t(`type.${value}`) : t("type", { wanted });
    case "minimum":
      return t("minimum", { wanted });
    case "maximum":
      return t("maximum", { wanted });
    case "exclusiveMinimum":
      return t("above", { wanted });
    case "exclusiveMaximum":
      return t("below", { wanted });
    case "multipleOf":
      return t("multipleOf", { wanted });
    case "minLength":
      return t("minLength", { count: Number(wanted) });
    case "maxLength":
      return t("maxLength", { count: Number(wanted) });
    case "minItems":
      return t("minItems", { count: Number(wanted) });
    case "maxItems":
      return t("maxItems", { count: Number(wanted) });
    case "uniqueItems":
      return t("uniqueItems");
    case "pattern":
      return t("pattern", { wanted });
    case "format":
      return t("format", { wanted });
    case "enum":
    case "const":
      return t("enum");
    case "false":
      return t("notKnown");
    default:
      return error;
  }
}
