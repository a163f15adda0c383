/** An action of an explanation: a button or a link where this page has one, else its command. */
import type { Schemas } from "../../../api/client";
import { href, pathTo } from "../../../app/router";
import { CommandLine } from "../../../ui/CommandLine";
import { Button, ButtonLink } from "../../../ui/controls";
import { UserText } from "../../../ui/UserText";
import { RESULTS_ID } from "../results/Results";
import { openWaits, type Run } from "../run";
import type { RunControls } from "../runControls";

type Action = Schemas["ActionView"];
/** At once, without a dialog. */
const DECIDING = new Set(["rerun", "rerun_failed", "deploy_flow", "ask_again"]);
/** The part of the page with the log. */
export const LOG_ID = "run-log";

interface ActionItemProps {
  action: Action;
  run: Run;
  controls: RunControls;
}

export function ActionItem({ action, run, controls }: ActionItemProps) {
  const done = doing(action.code, run, controls);
  const label = <UserText text={action.text} />;
  return (
    <li data-action={action.code}>
      {typeof done === "string" ? (
        <ButtonLink href={done}>{label}</ButtonLink>
      ) : done ? (
        <Button decides={DECIDING.has(action.code)} disabled={controls.isBusy} onClick={done}>
          {label}
        </Button>
      ) : (
        <>
          <span>{label}</span>
          {action.command && <CommandLine text={action.command} />}
        </>
      )}
    </li>
  );
}

/** What a click does, or where it leads; null: only a command does it. */
function doing(code: string, run: Run, controls: RunControls): (() => void) | string | null {
  const [wait] = openWaits(run, "human");
  switch (code) {
    case "cancel":
      return () => controls.ask("cancel");
    case "rerun":
    case "deploy_flow":
      return () => controls.rerun({ mode: "start" });
    case "rerun_failed":
      return () => controls.rerun({ mode: "failed" });
    case "ask_again":
      return controls.askAgain;
    case "send_signal":
      return () => controls.ask("signal");
    case "logs":
      return () => scrollTo(LOG_ID);
    case "artifacts":
      return () => scrollTo(RESULTS_ID);
    case "workers":
    case "resume_worker":
      return href("/workers", { q: run.tag });
    case "health":
      return href("/");
    case "dead_letters":
      return href("/dlq", { run_id: run.run_id });
    case "questions":
    case "answer":
      return wait ? href(pathTo("/waits/:id", { id: wait.wait_id })) : href("/inbox", { q: run.run_id });
    default:
      return null;
  }
}

const scrollTo = (id: string) => document.getElementById(id)?.scrollIntoView({ block: "start" });

/** Both lead to the question. */
export const withoutTwins = (actions: readonly Action[]): Action[] =>
  actions.filter(({ code }) => code !== "questions" || !actions.some((each) => each.code === "answer"));
