/** Where the result and the files of a run are, and the beginning of a file. */
import { send } from "../../../api/client";

export const resultPath = (id: string): string => `/runs/${encodeURIComponent(id)}/result`;
export const artifactPath = (id: string, name: string): string =>
  `/runs/${encodeURIComponent(id)}/artifacts/${name.split("/").map(encodeURIComponent).join("/")}`;

/** The first bytes of a file, and whether there are more. An empty file has no range. */
export async function beginning(
  path: string,
  { bytes, most, signal }: { bytes: number; most: number; signal: AbortSignal },
): Promise<{ data: Blob; isCut: boolean }> {
  if (bytes === 0) return { data: new Blob(), isCut: false };
  const headers: Record<string, string> = bytes > most ? { Range: `bytes=0-${most - 1}` } : {};
  const answer = await send(new Request(new URL(path, location.origin), { headers, signal }));
  return { data: await answer.blob(), isCut: bytes > most };
}
