/** The steps of a plan, and how far the log of a run says that they are. */

export interface Step {
  id: string;
  title: string;
  state: "waiting" | "running" | "done" | "failed";
  commit: string | null;
  /** Such as `unit PASS`. */
  tests: readonly string[];
}

const HEADING = /^#{3,6} +(S\d{2,3}): *(.*)$/gm;
const MARK = /^\[(STEP|COMMIT|TEST)\] +(.*)$/;

export function stepsOf(plan: string, lines: readonly { text: string }[]): readonly Step[] {
  const steps = new Map<string, Step>();
  for (const [, id = "", title = ""] of plan.matchAll(HEADING))
    steps.set(id, { id, title: title.trim(), state: "waiting", commit: null, tests: [] });
  let current: Step | undefined;
  for (const { text } of lines) {
    const [, mark, rest = ""] = MARK.exec(text) ?? [];
    if (mark === "STEP") {
      const [id = "", word = ""] = rest.split(/\s+/);
      current = steps.get(id);
      if (current) current.state = stateOf(word);
    } else if (mark === "COMMIT" && current) {
      current.commit = rest.split(/\s+/)[0] ?? null;
      current.state = "done";
    } else if (mark === "TEST" && current) current.tests = [...current.tests, rest];
  }
  return [...steps.values()];
}

const stateOf = (word: string): Step["state"] =>
  word === "done" || word === "skip" ? "done" : word === "failed" ? "failed" : "running";
