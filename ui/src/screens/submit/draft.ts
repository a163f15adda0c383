/** What is being written, kept for the tab: who looks something up, or reloads the page, finds it again. */
import { storedValue } from "../../lib/store";

export interface Draft {
  flowName: string;
  params: string;
  yaml: string;
  tag: string;
  tags: string;
  timeoutSec: string;
}

/** A whole flow that needs no code on the worker, so that the first try works: it asks whoever tries it. */
export const EXAMPLE_YAML = `version: 1
flow:
  graph: ask
  defaults:
    question: Shall we go on?
tasks:
  ask:
    use: pyoco/human
    inputs:
      message: $ctx.params.question
      schema: {type: boolean}
`;

const EMPTY: Draft = { flowName: "", params: "{}", yaml: EXAMPLE_YAML, tag: "", tags: "", timeoutSec: "" };
const isDraft = (kept: unknown): kept is Draft =>
  typeof kept === "object" &&
  kept !== null &&
  Object.keys(EMPTY).every((name) => typeof (kept as Record<string, unknown>)[name] === "string");

export const draft = storedValue(() => sessionStorage, "pyoco.draft", EMPTY, isDraft);

export const change = (patch: Partial<Draft>): void => draft.set({ ...draft.get(), ...patch });
