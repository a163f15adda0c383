/** Downloads of files of the gateway. A link cannot carry a key, so with one the file is fetched by the page. */
import { showProblem } from "../ui/toasts";
import { apiKey } from "./apiKey";
import { send } from "./client";
import { Problem } from "./problem";

const KEPT_MS = 60_000;
/** Larger files are written to the disk while they are read, where the browser can do that. */
const MOST_IN_MEMORY = 32_000_000;

interface SavedFile {
  path: string;
  name: string;
  bytes: number;
}

/** Of Chromium, on a page from HTTPS or this machine. */
type SavePicker = (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;

export async function download({ path, name, bytes }: SavedFile): Promise<void> {
  if (!apiKey.get()) return save(path, name);
  const { showSaveFilePicker: pick } = window as { showSaveFilePicker?: SavePicker };
  try {
    if (pick && bytes > MOST_IN_MEMORY) await stream(path, await pick({ suggestedName: name }));
    else await keepAndSave(path, name);
  } catch (error) {
    // The person closed the browser's dialog.
    if (!(error instanceof DOMException && error.name === "AbortError")) showProblem(Problem.from(error));
  }
}

const fetched = (path: string): Promise<Response> => send(new Request(new URL(path, location.origin)));

async function stream(path: string, file: FileSystemFileHandle): Promise<void> {
  const { body } = await fetched(path);
  // Closes the file at the end, and drops it if the download fails.
  await body?.pipeTo(await file.createWritable());
}

async function keepAndSave(path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await (await fetched(path)).blob());
  save(url, name);
  // The browser needs the URL until it has started to save.
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
