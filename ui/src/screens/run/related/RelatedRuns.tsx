/** What belongs to a run, as a tree: its cause, the run that it repeats, its reruns, and its fan-outs. */
import { ChevronDown, ChevronRight, ListTree, Repeat, Split } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { href, pathTo } from "../../../app/router";
import { useMessages } from "../../../i18n/messages";
import { CauseMark, useCauseText } from "../../../ui/cause";
import { IconButton, joined } from "../../../ui/controls";
import { isTerminal, StatusBadge, useStatusText } from "../../../ui/status";
import { Ago } from "../../../ui/time";
import { UserText } from "../../../ui/UserText";
import { Panel } from "../Panel";
import type { Run, Task } from "../run";
import { type FanOut, fanOuts } from "./fanOuts";
import { type RelatedRun, useAncestors, useReruns, useSameCause } from "./lineage";
import { messages } from "./messages";
import styles from "./Related.module.css";

/** These have no page and no other runs of their own. */
const WITHOUT_GROUP: ReadonlySet<string> = new Set(["api", "rerun"]);

interface RelatedRunsProps {
  run: Run;
  tasks: readonly Task[];
  onSelect: (task: string) => void;
}

/** Nothing for a run that stands alone. */
export function RelatedRuns({ run, tasks, onSelect }: RelatedRunsProps) {
  const t = useMessages(messages);
  const ancestors = useAncestors(run);
  const reruns = useReruns(run.run_id, { enabled: isTerminal(run.status), live: true });
  const groups = useMemo(() => fanOuts(tasks), [tasks]);
  const cause = run.cause && !WITHOUT_GROUP.has(run.cause.kind) && run.cause.id ? run.cause : null;
  const same = useSameCause(cause ? `${cause.kind}:${cause.id}` : null);
  const isAlone = !cause && !run.origin_run_id && groups.length === 0 && !(reruns && reruns.total > 0);
  if (isAlone) return null;
  const chain: RelatedRun[] = [...ancestors, { ...run, submitted_at: run.submitted_at ?? null }];
  const tree = (
    <ul className={styles.tree}>
      <Chain chain={chain} current={run.run_id} inside={<FanOuts groups={groups} onSelect={onSelect} />} />
    </ul>
  );
  return (
    <Panel title={t("title")} icon={ListTree}>
      <div className={styles.related} data-related>
        {run.origin_run_id && ancestors.length === 0 && <p className={styles.soft}>{t("originGone")}</p>}
        {cause ? (
          <>
            <p className={styles.line}>
              <CauseWord kind={cause.kind} />
              <CauseMark cause={cause} tenant={run.tenant_id} />
              {same !== null && same > 1 && (
                <a href={href("/runs", { cause: `${cause.kind}:${cause.id}` })}>
                  {t("sameCause", { count: same })}
                </a>
              )}
            </p>
            {tree}
          </>
        ) : (
          tree
        )}
      </div>
    </Panel>
  );
}

function CauseWord({ kind }: { kind: string }) {
  const word = useCauseText();
  return <span className={styles.soft}>{word(kind)}</span>;
}

interface ChainProps {
  /** From the first run to the current one: each is a rerun of the one before. */
  chain: readonly RelatedRun[];
  current: string;
  inside: ReactNode;
  isRerun?: boolean;
}

function Chain({ chain: [first, ...rest], current, inside, isRerun = false }: ChainProps) {
  const reruns = useReruns(first?.run_id ?? "", { enabled: first !== undefined && isTerminal(first.status) });
  if (!first) return null;
  const next = rest[0];
  const others = (reruns?.runs ?? []).filter(({ run_id }) => run_id !== next?.run_id);
  return (
    <li>
      <Line run={first} isCurrent={first.run_id === current} isRerun={isRerun} />
      {first.run_id === current && inside}
      {(next || others.length > 0) && (
        <ul>
          {next && <Chain chain={rest} current={current} inside={inside} isRerun />}
          {others.map((run) => (
            <Branch key={run.run_id} run={run} />
          ))}
          <More id={first.run_id} shown={reruns?.runs.length ?? 0} total={reruns?.total ?? 0} />
        </ul>
      )}
    </li>
  );
}

/** A run beside the chain. Its reruns are read when it is opened. */
function Branch({ run }: { run: RelatedRun }) {
  const t = useMessages(messages);
  const [open, setOpen] = useState(false);
  const reruns = useReruns(run.run_id, { enabled: open });
  const Icon = open ? ChevronDown : ChevronRight;
  return (
    <li>
      <Line
        run={run}
        isRerun
        toggle={
          isTerminal(run.status) && (
            <IconButton
              className={styles.toggle}
              label={t(open ? "hideReruns" : "showReruns", { run: run.run_id.slice(0, 8) })}
              aria-expanded={open}
              icon={<Icon size={14} />}
              onClick={() => setOpen(!open)}
            />
          )
        }
      />
      {open && reruns && (
        <ul>
          {reruns.runs.map((each) => (
            <Branch key={each.run_id} run={each} />
          ))}
          {reruns.total === 0 && <li className={styles.soft}>{t("noReruns")}</li>}
          <More id={run.run_id} shown={reruns.runs.length} total={reruns.total} />
        </ul>
      )}
    </li>
  );
}

function More({ id, shown, total }: { id: string; shown: number; total: number }) {
  const t = useMessages(messages);
  if (total <= shown) return null;
  return (
    <li>
      <a href={href("/runs", { origin: id })}>{t("allReruns", { count: total })}</a>
    </li>
  );
}

interface LineProps {
  run: RelatedRun;
  isCurrent?: boolean;
  /** Of the run above it. */
  isRerun?: boolean;
  toggle?: ReactNode;
}

function Line({ run, isCurrent, isRerun, toggle }: LineProps) {
  const t = useMessages(messages);
  const name = (
    <>
      <UserText text={run.flow_name} /> <code>{run.run_id.slice(0, 8)}</code>
    </>
  );
  return (
    <span className={joined(styles.line, isCurrent && styles.current)} data-run={run.run_id}>
      {toggle}
      {isRerun && <span className={styles.soft}>{t("rerun")}</span>}
      <StatusBadge status={run.status} />
      {isCurrent ? (
        <strong aria-current="true">{name}</strong>
      ) : (
        <a href={href(pathTo("/runs/:id", { id: run.run_id }))}>{name}</a>
      )}
      {isCurrent && <span className={styles.soft}>{t("thisRun")}</span>}
      <span className={styles.soft}>
        <Ago at={run.submitted_at} />
      </span>
    </span>
  );
}

function FanOuts({ groups, onSelect }: { groups: readonly FanOut[]; onSelect: (task: string) => void }) {
  const t = useMessages(messages);
  const status = useStatusText();
  if (groups.length === 0) return null;
  return (
    <ul>
      {groups.map((group) => {
        const Icon = group.loop ? Repeat : Split;
        return (
          <li key={`${group.loop} ${group.name}`} className={styles.line} data-fan-out={group.name}>
            <Icon size={13} aria-hidden />
            <button type="button" className={styles.group} onClick={() => onSelect(group.first)}>
              <UserText text={group.name} />
            </button>
            <span>
              {t(group.isRetried ? "attempts" : group.loop ? "calls" : "parallel", { count: group.count })}
            </span>
            {!group.loop &&
              group.states.map(([state, count]) => (
                <span key={state} className={styles.soft}>
                  {status(state)} {count}
                </span>
              ))}
          </li>
        );
      })}
    </ul>
  );
}
