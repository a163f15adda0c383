/** The draft of a submission, kept for the tab. */
import { storedValue } from "../../lib/store";

export interface Draft {
  flowName: string;
  params: string;
  yaml: string;
  tag: string;
  tags: string;
  timeoutSec: string;
  /** `now`, `at` or `in`. */
  start: string;
  /** As a `datetime-local` input has it, in the browser's time zone. */
  startAt: string;
  startIn: string;
  startUnit: string;
}

/** A flow that needs no code on the worker, so that a first try works. */
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

const EMPTY: Draft = {
  flowName: "",
  params: "{}",
  yaml: EXAMPLE_YAML,
  tag: "",
  tags: "",
  timeoutSec: "",
  start: "now",
  startAt: "",
  startIn: "",
  startUnit: "minutes",
};
const isDraft = (kept: unknown): kept is Draft =>
  typeof kept === "object" &&
  kept !== null &&
  Object.keys(EMPTY).every((name) => typeof (kept as Record<string, unknown>)[name] === "string");

export const draft = storedValue(() => sessionStorage, "pyoco.draft", EMPTY, isDraft);

export const change = (patch: Partial<Draft>): void => draft.set({ ...draft.get(), ...patch });
