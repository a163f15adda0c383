/** What a run has done so far: its steps beside the text of the request, and its live log. */
import { ArrowDown, ListChecks, ScrollText } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useRequestWords } from "../../agentRequests/RequestStatus";
import styles from "../../agentRequests/Requests.module.css";
import { type AgentRequest, type AgentRun, type RunStep, readRuns } from "../../agentRequests/requestApi";
import { queryClient, useRead } from "../../api/queries";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { Button, Select } from "../../ui/controls";
import { StatusIcon } from "../../ui/status";
import { UserText } from "../../ui/UserText";
import logStyles from "../run/log/Log.module.css";
import { LogRows } from "../run/log/LogRows";
import { messages as logMessages } from "../run/log/messages";
import { Panel } from "../run/Panel";
import { DiffDialog, diffName } from "./DiffDialog";
import { messages } from "./messages";
import local from "./Request.module.css";
import { useRequestLog } from "./useRequestLog";

const EVERY_MS = 3_000;

/** `children` is the text of the request. */
export function RunParts({ request, children }: { request: AgentRequest; children: ReactNode }) {
  const [query, change] = useQueryState();
  const { id } = request;
  const isRunning = request.status === "running" || request.enqueued_at !== null;
  const key = ["requests", "runs", id, request.run_id];
  const { data } = useRead(key, (signal) => readRuns(id, signal), {
    every: isRunning ? EVERY_MS : undefined,
    keep: true,
  });
  const runs = data?.items ?? [];
  const run = runs.find((each) => each.id === query.get("run")) ?? runs[0];
  return (
    <>
      <div className={run && run.steps.length > 0 ? local.columns : undefined}>
        {children}
        {run && run.steps.length > 0 && (
          <Steps run={run} asks={request.status === "needs_input" && run === runs[0]} />
        )}
      </div>
      {run && (
        <Log
          // Another run has another log.
          key={run.id}
          run={run}
          choice={
            runs.length > 1 && (
              <RunChoice
                runs={runs}
                chosen={run.id}
                onChoose={(chosen) =>
                  change({ run: chosen === runs[0]?.id ? null : chosen }, { replace: true })
                }
              />
            )
          }
        />
      )}
    </>
  );
}

const LOOKS: Record<string, string> = {
  running: "RUNNING",
  done: "COMPLETED",
  failed: "FAILED",
  asks: "WAITING_HUMAN",
};
const STATES = ["running", "done", "failed", "asks"] as const;
const TESTS = ["passed", "failed"] as const;

/** `asks`: the request waits for an answer, and so does the step that was in progress. */
function Steps({ run, asks }: { run: AgentRun; asks: boolean }) {
  const t = useMessages(messages);
  const [shown, setShown] = useState<RunStep | null>(null);
  return (
    <Panel title={t("steps")} icon={ListChecks}>
      <ol className={local.steps}>
        {run.steps.map((step) => {
          const state = asks && step.state === "running" ? "asks" : step.state;
          const tests = TESTS.find((each) => each === step.tests);
          return (
            <li key={step.id} data-step={step.id} data-state={state}>
              <StatusIcon status={LOOKS[state] ?? "PENDING"} size={15} />
              <div>
                <p>
                  <span className={local.stepId}>{step.id}</span> <UserText text={step.title} />{" "}
                  <span className="hidden-visually">
                    {t(`state.${STATES.find((each) => each === state) ?? "waiting"}`)}
                  </span>
                </p>
                {step.summary && (
                  <p className={styles.soft}>
                    <UserText text={step.summary} />
                  </p>
                )}
                {(step.commit || tests) && (
                  <p className={local.proof}>
                    {step.commit && <code>{step.commit.slice(0, 10)}</code>}
                    {run.files.includes(diffName(step)) && (
                      <button type="button" className={local.link} onClick={() => setShown(step)}>
                        {t("diff")}
                      </button>
                    )}
                    {tests && <span data-tests={tests}>{t(`tests.${tests}`)}</span>}
                  </p>
                )}
              </div>
            </li>
          );
        })}
      </ol>
      {shown && <DiffDialog run={run} step={shown} onClose={() => setShown(null)} />}
    </Panel>
  );
}

function Log({ run, choice }: { run: AgentRun; choice: ReactNode }) {
  const t = useMessages(messages);
  const l = useMessages(logMessages);
  const log = useRequestLog(run.request_id, run.id, () =>
    queryClient.invalidateQueries({ queryKey: ["requests"] }),
  );
  const [following, setFollowing] = useState(true);
  return (
    <Panel title={t("log")} icon={ScrollText} className={logStyles.card} actions={choice}>
      {log.leftOut > 0 && <p className={logStyles.leftOut}>{t("leftOut", { count: log.leftOut })}</p>}
      {log.lines.length > 0 ? (
        <LogRows
          lines={log.lines}
          wrap
          search=""
          selected={null}
          following={following}
          onFollow={setFollowing}
        />
      ) : (
        <p className={logStyles.nothing} role="status">
          {t("noLog")}
        </p>
      )}
      {!following && log.lines.length > 0 && (
        <Button kind="primary" className={logStyles.toEnd} onClick={() => setFollowing(true)}>
          <ArrowDown size={13} aria-hidden />
          {l("toEnd")}
        </Button>
      )}
      <p className={logStyles.foot}>
        {l("lineCount", { count: log.lines.length })}
        {!log.isConnected && <span role="status">{t("reconnecting")}</span>}
        {log.isConnected && !log.complete && <span>{l("logLive")}</span>}
      </p>
    </Panel>
  );
}

interface RunChoiceProps {
  runs: readonly AgentRun[];
  chosen: string;
  onChoose: (id: string) => void;
}

/** Which of the runs: each try of a request has its own log. */
function RunChoice({ runs, chosen, onChoose }: RunChoiceProps) {
  const t = useMessages(messages);
  const words = useRequestWords();
  return (
    <Select
      aria-label={t("run")}
      className={local.runs}
      value={chosen}
      onChange={({ target }) => onChoose(target.value)}
    >
      {runs.map((run) => (
        <option key={run.id} value={run.id}>
          {`${run.id} · ${words.status(run.status)}`}
        </option>
      ))}
    </Select>
  );
}
