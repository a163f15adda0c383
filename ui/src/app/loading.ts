/** Parts of the page that are loaded on demand, and recovery when one cannot be loaded.
 *
 * After an update of the gateway the parts of the old build are gone: the page is reloaded, once per build.
 * While the gateway is unreachable, the current page is kept.
 */
import { useEffect, useState } from "react";
import { Problem } from "../api/problem";
import { storedValue } from "../lib/store";

type Load<T> = () => Promise<T>;

const isText = (value: unknown): value is string => typeof value === "string";
/** The build that the page was last reloaded for. */
const renewedFor = storedValue<string>(() => sessionStorage, "pyoco.renewed-for", "", isText);
const underWay = new Map<Load<unknown>, Promise<unknown>>();
const here = new Map<Load<unknown>, unknown>();
/** A browser may cache a failed import, and loads a style only once: only a reload tries again. */
const failed = new Set<Load<unknown>>();

/** Replaced in tests, which cannot reload their page. */
export const browser = { reload: () => location.reload() };

/** Start loading a part. */
export function loadPart<T>(load: Load<T>): Promise<T> {
  const begun = underWay.get(load) ?? begin(load);
  underWay.set(load, begun);
  return begun as Promise<T>;
}

async function begin<T>(load: Load<T>): Promise<T> {
  if (failed.has(load)) {
    await servedBuild();
    return anotherPage();
  }
  try {
    const part = await load();
    here.set(load, part);
    return part;
  } catch (error) {
    const build = await servedBuild();
    if (build === buildOf(document) || build === renewedFor.get()) throw error;
    renewedFor.set(build);
    return anotherPage();
  }
}

/** The part, once loaded. React's `lazy` would delay by 300 ms and cache a failure. */
export function usePart<T>(load: Load<T>): T | null {
  const [, drawAgain] = useState({});
  const [failure, setFailure] = useState<unknown>(null);
  const part = here.get(load) as T | undefined;
  const isHere = part !== undefined;
  useEffect(() => {
    // It may have been loaded between render and effect.
    if (isHere) return;
    const fail = (error: unknown) => {
      failed.add(load);
      underWay.delete(load);
      setFailure(error);
    };
    loadPart(load).then(() => drawAgain({}), fail);
  }, [load, isHere]);
  if (failure !== null) throw failure;
  return part ?? null;
}

function anotherPage(): Promise<never> {
  browser.reload();
  return new Promise(() => undefined);
}

/** The build that the gateway serves now. */
async function servedBuild(): Promise<string> {
  let answer: Response;
  try {
    answer = await fetch("/", { cache: "no-store" });
  } catch {
    throw Problem.unreachable();
  }
  if (!answer.ok) throw await Problem.of(answer);
  return buildOf(new DOMParser().parseFromString(await answer.text(), "text/html"));
}

/** The file name of the first script contains a hash of everything it can load. */
const buildOf = (page: Document): string =>
  page.querySelector("script[type=module][src]")?.getAttribute("src") ?? "";
