/** Parts of the page that come when they are needed, and what is done when one does not come.
 *
 * After an update of the gateway the parts of the old page are gone, and the new page has the new ones: the page is
 * loaded again, once for every build. Where the gateway is away, the page that is there is worth more than none.
 */
import { useEffect, useState } from "react";
import { Problem } from "../api/problem";
import { storedValue } from "../lib/store";

type Load<T> = () => Promise<T>;

const isText = (value: unknown): value is string => typeof value === "string";
/** The build that the page was last loaded again for. */
const renewedFor = storedValue<string>(() => sessionStorage, "pyoco.renewed-for", "", isText);
const underWay = new Map<Load<unknown>, Promise<unknown>>();
const here = new Map<Load<unknown>, unknown>();
/** A browser may remember that an import failed, and a style is asked for only once: only a new page tries again. */
const failed = new Set<Load<unknown>>();

/** For the tests, which have one page that cannot be loaded again. */
export const browser = { reload: () => location.reload() };

/** Start to load a part; whoever uses it is told how it went. */
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

/** The part, as soon as it is there. React's own `lazy` would wait for 300 ms on purpose, and keep a failure. */
export function usePart<T>(load: Load<T>): T | null {
  const [, drawAgain] = useState({});
  const [failure, setFailure] = useState<unknown>(null);
  const part = here.get(load) as T | undefined;
  const isHere = part !== undefined;
  useEffect(() => {
    // As it was drawn: it may have come since, and has to be drawn then.
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

/** Which build the gateway serves now. */
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

/** The name of the first script has a hash of all that it can load. */
const buildOf = (page: Document): string =>
  page.querySelector("script[type=module][src]")?.getAttribute("src") ?? "";
