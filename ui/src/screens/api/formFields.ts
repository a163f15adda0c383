import type { Schema } from "../../schemaForm/json";
import { isParts, resolved } from "../../schemaForm/references";
import type { Document } from "./document";

/** The fields of a form, and which of them are files. */
export function formFields(schema: Schema, document: Document): { name: string; isFile: boolean }[] {
  const { properties } = resolved(schema, document);
  return Object.entries(isParts(properties) ? properties : {}).map(([name, each]) => ({
    name,
    isFile: isParts(each) && each.format === "binary",
  }));
}
