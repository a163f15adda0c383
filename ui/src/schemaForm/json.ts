/** JSON values, and places in them: `["lines", 0, "amount"]`. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };
export type Schema = Record<string, unknown> | boolean;
export type Path = readonly (string | number)[];

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** As the gateway writes it. */
export const dotted = (path: Path): string => path.join(".");

export const same = (a: unknown, b: unknown): boolean => {
  if (Object.is(a, b)) return true;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((each, at) => same(each, b[at]));
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => name in b && same(a[name], b[name]));
};

/** The object with another value under a name; `undefined` takes it away. */
export function withMember(object: JsonObject, name: string, value: Json | undefined): JsonObject {
  if (value !== undefined) return { ...object, [name]: value };
  const { [name]: _, ...rest } = object;
  return rest;
}

/** Whether the text is a whole number of more digits than this page keeps: it would become another number. */
export const isInexact = (text: string): boolean =>
  /^[+-]?\d+$/.test(text) && !Number.isSafeInteger(Number(text));
