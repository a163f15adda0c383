/** The screen of one run. Its parts show the same selected task. */

import { memo, useCallback, useMemo, useState } from "react";
import { href, navigate, parseHash, patched, useQueryState } from "../../app/router";
import type { ScreenProps } from "../../app/screens";
import { useShortcut } from "../../app/shortcuts";
import { useMessages } from "../../i18n/messages";
import { CopyButton } from "../../ui/Copy";
import { ProblemBox } from "../../ui/feedback";
import { LostRuns, RunStatusBadge, useIsLost } from "../../ui/lostRuns";
import { Page } from "../../ui/Page";
import { LoadingPage, NotFoundPage } from "../../ui/pageStates";
import { isTerminal } from "../../ui/status";
import { stepped, useStepKeys } from "../../ui/stepKeys";
import { Details } from "./details/Details";
import { FlowCard } from "./flow/FlowCard";
import { PlanOfRun } from "./flow/PlanCard";
import { LogCard } from "./log/LogCard";
import { messages } from "./messages";
import styles from "./Run.module.css";
import { RunActions } from "./RunActions";
import { RunFacts } from "./RunFacts";
import { RunPlace, RunSteps } from "./RunPlace";
import { CompareMenu } from "./related/CompareMenu";
import { RelatedRuns } from "./related/RelatedRuns";
import { RunAudit } from "./related/RunAudit";
import { Results } from "./results/Results";
import { hasPrinted, type Run, type Task, tasksOf } from "./run";
import { useRunControls } from "./runControls";
import { TimelineCard } from "./timeline/TimelineCard";
import { useLiveRun } from "./useLiveRun";
import { useWaits } from "./useWaits";
import { LOG_ID } from "./why/ActionItem";
import { Why } from "./why/Why";

export default function Screen({ params }: ScreenProps) {
  const id = params.id ?? "";
  // Another run, or an ended run that continues, is followed again.
  const [round, setRound] = useState(0);
  return <RunScreen key={`${id} ${round}`} id={id} onRevived={() => setRound(round + 1)} />;
}

interface RunScreenProps {
  id: string;
  onRevived: () => void;
}

function RunScreen({ id, onRevived }: RunScreenProps) {
  const t = useMessages(messages);
  const { run, problem, removed } = useLiveRun(id);
  if (problem?.status === 404 || (removed && !run))
    return (
      <NotFoundPage title={t("title")} heading={t("notFound")} list={{ path: "/runs", label: t("allRuns") }}>
        {t("notFoundText")}
      </NotFoundPage>
    );
  if (!run) return <LoadingPage title={t("title")} problem={problem} />;
  return (
    <>
      {problem && <ProblemBox problem={problem} />}
      <RunPage run={run} removed={removed} onRevived={onRevived} />
    </>
  );
}

// A run of a thousand tasks changes many times a second: skip parts that did not change.
const Flow = memo(FlowCard);
const Log = memo(LogCard);

interface RunPageProps {
  run: Run;
  removed: boolean;
  onRevived: () => void;
}

function RunPage({ run, removed, onRevived }: RunPageProps) {
  const t = useMessages(messages);
  const isLost = useIsLost(run);
  const tasks = useMemo(() => tasksOf(run, isLost), [run, isLost]);
  const waits = useWaits(run);
  const [selected, select] = useSelectedTask(tasks);
  const controls = useRunControls(run, onRevived);
  return (
    <Page
      above={<RunPlace run={run} />}
      title={run.flow_name}
      note={
        <span className={styles.title}>
          <LostRuns runs={[run]}>
            <RunStatusBadge run={run} />
          </LostRuns>
          <code title={run.run_id}>{run.run_id.slice(0, 8)}</code>
          <CopyButton text={run.run_id} />
          {removed && <span>{t("removed")}</span>}
          <RunSteps id={run.run_id} />
        </span>
      }
      actions={
        <>
          <CompareMenu run={run} />
          <RunActions run={run} selected={selected} controls={controls} />
        </>
      }
    >
      <RunFacts run={run} />
      <Why run={run} tasks={tasks} controls={controls} onSelect={select} />
      {controls.dialog}
      <div className={styles.columns}>
        <div className={styles.main}>
          {tasks.length > 0 ? (
            <Flow tasks={tasks} selected={selected} onSelect={select} />
          ) : (
            !isTerminal(run.status) && <PlanOfRun run={run} />
          )}
          {tasks.length > 0 && (
            <TimelineCard run={run} tasks={tasks} waits={waits} selected={selected} onSelect={select} />
          )}
          <Results run={run} />
        </div>
        <Details run={run} tasks={tasks} waits={waits} selected={selected} onSelect={select} />
        <div id={LOG_ID} className={styles.below}>
          <Log
            id={run.run_id}
            selected={selected}
            onSelect={select}
            isOver={isTerminal(run.status)}
            hasPrinted={hasPrinted(tasks, selected)}
          />
          <RelatedRuns run={run} tasks={tasks} onSelect={select} />
          <RunAudit run={run} />
        </div>
      </div>
    </Page>
  );
}

/** The selected task, in the URL. */
function useSelectedTask(tasks: readonly Task[]) {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const selected = query.get("task");
  const select = useCallback((name: string | null) => {
    const { path, query: now } = parseHash(location.hash);
    navigate(href(path, patched(now, { task: name, panel: null })), { replace: now.has("task") });
  }, []);
  const move = (step: number) => {
    const at = tasks.findIndex((each) => each.name === selected);
    const next = tasks[stepped(at, step, tasks.length)];
    if (next) select(next.name);
  };
  useStepKeys(move, { next: t("keyNext"), previous: t("keyPrevious") });
  useShortcut("Escape", () => selected !== null && select(null), t("clearTask"));
  return [selected, select] as const;
}
