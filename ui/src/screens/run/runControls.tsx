/** What a person can do with a run, whether a button of the page or of an explanation does it. */
import { type ReactNode, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { useAct } from "../../api/queries";
import { CancelDialog } from "./CancelDialog";
import { RerunDialog } from "./RerunDialog";
import { useRerun } from "./reruns";
import type { Run } from "./run";
import { SignalDialog } from "./SignalDialog";

type Asked = "cancel" | "signal" | "params";

export interface RunControls {
  /** Opens the dialog that asks for what is missing. */
  ask: (what: Asked) => void;
  rerun: (how: Partial<Schemas["RerunRequest"]>) => void;
  askAgain: () => void;
  isBusy: boolean;
  /** To be rendered once. */
  dialog: ReactNode;
}

/** `onRevived`: the run continues although it had ended. */
export function useRunControls(run: Run, onRevived: () => void): RunControls {
  const [asked, ask] = useState<Asked | null>(null);
  const rerun = useRerun(run.run_id);
  const path = { params: { path: { run_id: run.run_id } } };
  const retry = useAct(() => api.POST("/runs/{run_id}/retry", path), { onDone: onRevived });
  const close = () => ask(null);
  return {
    ask,
    rerun: (how) => rerun.mutate(how),
    askAgain: () => retry.mutate(),
    isBusy: rerun.isPending || retry.isPending,
    dialog: (
      <>
        {asked === "cancel" && <CancelDialog run={run} onClose={close} />}
        {asked === "signal" && <SignalDialog run={run} onClose={close} />}
        {asked === "params" && <RerunDialog run={run} onClose={close} />}
      </>
    ),
  };
}
