/** What a run has done so far: its steps beside the text of the request, and its live log. */
import { ArrowDown, ListChecks, ScrollText } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useRead } from "../../api/queries";
import { useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { useRequestWords } from "../../requests/RequestStatus";
import styles from "../../requests/Requests.module.css";
import { type RequestDetail, readRuns } from "../../requests/requestApi";
import { Button, Select } from "../../ui/controls";
import { StatusIcon } from "../../ui/status";
import { UserText } from "../../ui/UserText";
import logStyles from "../run/log/Log.module.css";
import { LogRows, type LogRowsHandle } from "../run/log/LogRows";
import { Panel } from "../run/Panel";
import { messages } from "./messages";
import local from "./Request.module.css";
import { type Step, stepsOf } from "./steps";
import { type RequestLog, useRequestLog } from "./useRequestLog";

interface RunPartsProps {
  detail: RequestDetail;
  /** The run says that its status or phase is another one. */
  onChange: () => void;
  children: ReactNode;
}

export function RunParts({ detail, onChange, children }: RunPartsProps) {
  const { request, content } = detail;
  const [query] = useQueryState();
  const latest = request.run_id ?? "";
  const runId = query.get("run") ?? latest;
  const log = useRequestLog(request.id, runId, onChange);
  const steps = useMemo(
    () => stepsOf(content.sections.plan ?? "", log.lines),
    [content.sections.plan, log.lines],
  );
  return (
    <>
      <div className={steps.length > 0 ? local.columns : undefined}>
        {children}
        {steps.length > 0 && <Steps steps={steps} />}
      </div>
      <Log id={request.id} runId={runId} latest={latest} log={log} />
    </>
  );
}

const LOOKS = { waiting: "PENDING", running: "RUNNING", done: "COMPLETED", failed: "FAILED" } as const;

function Steps({ steps }: { steps: readonly Step[] }) {
  const t = useMessages(messages);
  return (
    <Panel title={t("steps")} icon={ListChecks}>
      <ol className={local.steps}>
        {steps.map((step) => (
          <li key={step.id} data-step={step.id} data-state={step.state}>
            <StatusIcon status={LOOKS[step.state]} size={15} />
            <div>
              <p>
                <span className={local.stepId}>{step.id}</span> <UserText text={step.title} />
                <span className="hidden-visually">{t(`state.${step.state}`)}</span>
              </p>
              <p className={styles.soft}>
                {step.commit && <code>{step.commit}</code>}
                {step.tests.map((test) => (
                  <span key={test}>
                    <UserText text={test} />
                  </span>
                ))}
              </p>
            </div>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

interface LogProps {
  id: string;
  runId: string;
  latest: string;
  log: RequestLog;
}

function Log({ id, runId, latest, log }: LogProps) {
  const t = useMessages(messages);
  const rows = useRef<LogRowsHandle>(null);
  const [following, setFollowing] = useState(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each time that there is more.
  useEffect(() => {
    if (following) rows.current?.toEnd();
  }, [log.lines, following]);
  return (
    <Panel
      title={t("log")}
      icon={ScrollText}
      className={logStyles.card}
      actions={<RunChoice id={id} runId={runId} latest={latest} />}
    >
      {log.leftOut > 0 && <p className={logStyles.leftOut}>{t("leftOut", { count: log.leftOut })}</p>}
      {log.lines.length > 0 ? (
        <LogRows ref={rows} lines={log.lines} wrap search="" selected={null} onAtEnd={setFollowing} />
      ) : (
        <p className={logStyles.nothing} role="status">
          {t("noLog")}
        </p>
      )}
      {!following && log.lines.length > 0 && (
        <Button kind="primary" className={logStyles.toEnd} onClick={() => setFollowing(true)}>
          <ArrowDown size={13} aria-hidden />
          {t("toEnd")}
        </Button>
      )}
      <p className={logStyles.foot}>
        {t("lineCount", { count: log.lines.length })}
        {!log.isConnected && <span role="status">{t("reconnecting")}</span>}
        {log.isConnected && !log.complete && <span className={logStyles.live}>{t("live")}</span>}
      </p>
    </Panel>
  );
}

/** Which of the runs: each try of a request has its own log. */
function RunChoice({ id, runId, latest }: Omit<LogProps, "log">) {
  const t = useMessages(messages);
  const words = useRequestWords();
  const [, change] = useQueryState();
  const { data } = useRead(["requests", "runs", id, latest], (signal) => readRuns(id, signal));
  const runs = data?.items ?? [];
  if (runs.length < 2) return null;
  return (
    <Select
      aria-label={t("run")}
      className={local.runs}
      value={runId}
      onChange={({ target }) =>
        change({ run: target.value === latest ? null : target.value }, { replace: true })
      }
    >
      {runs.map((run) => (
        <option key={run.id} value={run.id}>
          {`${run.id} · ${words.status(run.status)}`}
        </option>
      ))}
    </Select>
  );
}
