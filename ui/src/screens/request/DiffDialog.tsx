/** The change that one step has made, line by line. */
import { type AgentRun, type RunStep, readArtifact } from "../../agentRequests/requestApi";
import { useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { visible } from "../../lib/visible";
import { Dialog } from "../../ui/Dialog";
import { Loading, ProblemBox } from "../../ui/feedback";
import { messages } from "./messages";
import local from "./Request.module.css";

interface DiffDialogProps {
  run: AgentRun;
  step: RunStep;
  onClose: () => void;
}

export const diffName = (step: RunStep): string => `${step.id}.diff`;

export function DiffDialog({ run, step, onClose }: DiffDialogProps) {
  const t = useMessages(messages);
  const { data, error } = useRead(["request-diff", run.request_id, run.id, step.id], (signal) =>
    readArtifact(run.request_id, run.id, diffName(step), signal),
  );
  return (
    <Dialog open onClose={onClose} title={`${step.id} ${step.title}`} width={980}>
      {error && <ProblemBox problem={error} />}
      {data === undefined && !error && <Loading />}
      {data !== undefined && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
        <pre className={local.diff} tabIndex={0}>
          {data ? pieces(data).map(piece) : t("noDiff")}
        </pre>
      )}
    </Dialog>
  );
}

const kindOf = (line: string): string =>
  /^(diff |index |new file|deleted file|--- |\+\+\+ |@@)/.test(line)
    ? "head"
    : line.startsWith("+")
      ? "added"
      : line.startsWith("-")
        ? "removed"
        : "same";

/** Lines of one kind in one piece: a diff may have many thousands. */
function pieces(diff: string): { kind: string; lines: string[] }[] {
  const found: { kind: string; lines: string[] }[] = [];
  for (const line of diff.trimEnd().split("\n")) {
    const kind = kindOf(line);
    const last = found.at(-1);
    if (last?.kind === kind) last.lines.push(line);
    else found.push({ kind, lines: [line] });
  }
  return found;
}

const piece = ({ kind, lines }: { kind: string; lines: string[] }, index: number) => (
  <span key={index} data-kind={kind}>
    {visible(lines.join("\n"))}
    {"\n"}
  </span>
);
