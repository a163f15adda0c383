/** How requests and answers carry JSON with numbers of any length. */
import { parseJson } from "../lib/exactJson";

/** Sends a JSON text as it is, so that long numbers of params stay as they were typed. */
export const rawJsonBody = <T>(json: string) => ({ body: {} as T, bodySerializer: () => json });

/** Reads long numbers, as of params and schemas, exactly. */
export async function readExactJson<T>(answer: Promise<{ data?: string }>): Promise<{ data: T }> {
  const { data } = await answer;
  return { data: parseJson(data ?? "null") as T };
}
