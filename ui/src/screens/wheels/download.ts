import { apiKey } from "../../api/apiKey";
import { send } from "../../api/client";
import { Problem } from "../../api/problem";
import { showProblem } from "../../ui/toasts";

const KEPT_MS = 60_000;

/** Downloads a wheel. A link cannot carry the key, so the file is fetched first. */
export async function downloadWheel(name: string): Promise<void> {
  const path = `/wheels/${encodeURIComponent(name)}`;
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
