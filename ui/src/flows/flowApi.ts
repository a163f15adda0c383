/** The endpoints of flows, and runs that are started with params as they were typed. */
import { api, type Schemas } from "../api/client";
import { readExactJson } from "../api/exactBodies";
import { Problem } from "../api/problem";
import type { Json, Schema } from "../schemaForm/json";

export type FlowItem = Schemas["FlowItem"];
export type FlowStatistics = Schemas["FlowStatistics"];
export type Flow = Omit<Schemas["FlowView"], "parameters"> & { parameters: Schema | null };
export type FlowWindow = "24h" | "7d" | "30d";
export const WINDOWS: readonly FlowWindow[] = ["24h", "7d", "30d"];

export const readFlows = (query: { search?: string; cursor?: string; limit?: number }, signal: AbortSignal) =>
  api.GET("/flows", { params: { query }, signal });

export const readFlow = (name: string, signal: AbortSignal) =>
  readExactJson<Flow>(
    api.GET("/flows/{flow_name}", { params: { path: { flow_name: name } }, signal, parseAs: "text" }),
  );

/** The schema of a flow's params; null where nobody knows it. */
export async function readSchema(name: string, signal: AbortSignal): Promise<{ data: Schema | null }> {
  try {
    return { data: (await readFlow(name, signal)).data.parameters };
  } catch (error) {
    if (Problem.from(error).status === 404) return { data: null };
    throw error;
  }
}

/** The problems of a response by the path of their field, without `params`: `lines.0.amount`. */
export function paramProblems({ fields }: Problem): Map<string, string> {
  const own = fields.filter(({ field }) => /^params($|[.[])/.test(field));
  return new Map(own.map(({ field, message }) => [pathIn(field), message]));
}

const pathIn = (field: string): string =>
  field
    .replace(/^params/, "")
    .replace(/\[(\d+)\]/g, ".$1")
    .replace(/^\./, "");

export const isParams = (value: Json | undefined): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value);
