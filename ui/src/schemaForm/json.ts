/** JSON values and paths: `["lines", 0, "amount"]`. */
import { ExactNumber, jsonText } from "../lib/exactJson";

export type Json = null | boolean | number | string | ExactNumber | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };
export type Schema = Record<string, unknown> | boolean;
export type Path = readonly (string | number)[];

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);

/** As in errors of the gateway. */
export const dotted = (path: Path): string => path.join(".");

export const same = (a: unknown, b: unknown): boolean => {
  if (Object.is(a, b)) return true;
  if (a instanceof ExactNumber && b instanceof ExactNumber) return a.source === b.source;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((each, at) => same(each, b[at]));
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => name in b && same(a[name], b[name]));
};

/** A copy with another value under a name; `undefined` removes it. */
export function withMember(object: JsonObject, name: string, value: Json | undefined): JsonObject {
  if (value !== undefined) return { ...object, [name]: value };
  const { [name]: _, ...rest } = object;
  return rest;
}

/** As edited; a missing value is an empty text. */
export const jsonWritten = (value: Json | undefined): string =>
  value === undefined ? "" : jsonText(value, 2);

/** The numbers in a value that JavaScript cannot represent. */
export function exactIn(value: Json | undefined): ExactNumber[] {
  if (value instanceof ExactNumber) return [value];
  const inner: Json[] = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
  return inner.flatMap(exactIn);
}

/** Whether a number in a value exceeds the range of JavaScript, such as `1e400`. */
export function hasInfinite(value: Json): boolean {
  if (typeof value === "number") return !Number.isFinite(value);
  const inner: Json[] = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
  return inner.some(hasInfinite);
}

/** Replaces each of them with the nearest JavaScript number, to check bounds. */
export function rounded(value: Json): Json {
  if (value instanceof ExactNumber) return Number(value.source);
  if (Array.isArray(value)) return value.map(rounded);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, rounded(each)]));
}
