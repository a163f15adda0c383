/** An upload with progress, which `fetch` does not support. */
import { requestHeaders, type Schemas } from "../../api/client";
import { Problem } from "../../api/problem";

export interface WheelUpload {
  file: File;
  tags: string;
  replace: boolean;
}
export interface Transfer {
  done: Promise<Schemas["WheelView"]>;
  abort: () => void;
}

export class UploadAborted extends Error {}

/** `onProgress` receives the share sent, from 0 to 1. */
export function uploadWheel(
  { file, tags, replace }: WheelUpload,
  onProgress: (part: number) => void,
): Transfer {
  const request = new XMLHttpRequest();
  const form = new FormData();
  // The fields first: the gateway rejects an invalid one without reading the file.
  form.set("tags", tags);
  form.set("replace", String(replace));
  form.set("wheel", file);
  const done = new Promise<Schemas["WheelView"]>((resolve, reject) => {
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onload = () => {
      const answer = new Response(request.responseText, {
        status: request.status,
        statusText: request.statusText,
      });
      if (answer.ok) resolve(answer.json());
      else void Problem.of(answer).then(reject);
    };
    request.onerror = () => reject(Problem.unreachable());
    request.onabort = () => reject(new UploadAborted());
  });
  request.open("POST", new URL("/wheels", location.origin));
  for (const [name, value] of Object.entries(requestHeaders())) request.setRequestHeader(name, value);
  request.send(form);
  return { done, abort: () => request.abort() };
}

export interface FormProblems {
  wheel: string | null;
  tags: string | null;
  /** Errors without a field. */
  other: Problem | null;
}

/** Maps errors of the gateway to fields. */
export function formProblems(problem: Problem | null): FormProblems {
  const at = (field: string) => problem?.fields.find((each) => each.field === field)?.message ?? null;
  // A version that is not newer and a file that is too large belong to the file.
  const aboutFile = problem && (problem.status === 409 || problem.status === 413);
  const found = {
    wheel: at("wheel") ?? (aboutFile ? `${problem.title}: ${problem.detail}` : null),
    tags: at("tags"),
  };
  return { ...found, other: found.wheel || found.tags ? null : problem };
}
