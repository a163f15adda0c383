/** Files of a run, read with the key of this tab. A link cannot carry a key, so the file is fetched first. */
import { apiKey } from "../../../api/apiKey";
import { send } from "../../../api/client";
import { Problem } from "../../../api/problem";
import { showProblem } from "../../../ui/toasts";

const KEPT_MS = 60_000;

export const resultPath = (id: string): string => `/runs/${encodeURIComponent(id)}/result`;
export const artifactPath = (id: string, name: string): string =>
  `/runs/${encodeURIComponent(id)}/artifacts/${name.split("/").map(encodeURIComponent).join("/")}`;

export async function download(path: string, name: string): Promise<void> {
  if (!apiKey.get()) return save(path, name);
  try {
    const answer = await send(new Request(new URL(path, location.origin)));
    const fetched = URL.createObjectURL(await answer.blob());
    save(fetched, name);
    // The browser needs the URL until it has started to save.
    setTimeout(() => URL.revokeObjectURL(fetched), KEPT_MS);
  } catch (error) {
    showProblem(Problem.from(error));
  }
}

function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

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
