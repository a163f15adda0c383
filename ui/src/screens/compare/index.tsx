/** Two runs side by side: params, durations, outputs and versions. */
import { ArrowLeftRight, GitCompareArrows } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { href, pathTo, useQueryState } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { duration, interval } from "../../i18n/time";
import { useNarrow } from "../../lib/media";
import { visible } from "../../lib/visible";
import { CauseMark } from "../../ui/cause";
import { Button, ButtonLink } from "../../ui/controls";
import { EmptyState, Loading, ProblemBox } from "../../ui/feedback";
import { Card, Page } from "../../ui/Page";
import { StatusBadge, StatusIcon, toneClass, useStatusText } from "../../ui/status";
import { Ago } from "../../ui/time";
import { UserText } from "../../ui/UserText";
import type { Run } from "../run/run";
import styles from "./Compare.module.css";
import {
  change,
  differs,
  isSameTime,
  MOST_ROWS,
  queuedSec,
  SAME_SEC,
  type TaskRow,
  type TaskSide,
  taskRows,
  tookSec,
  type ValueRow,
  valueRows,
} from "./compare";
import { messages } from "./messages";

export default function CompareScreen() {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const a = useRun(query.get("a") ?? "");
  const b = useRun(query.get("b") ?? "");
  if (!query.get("a") || !query.get("b"))
    return (
      <Page title={t("title")}>
        <EmptyState
          icon={GitCompareArrows}
          title={t("choose")}
          actions={<ButtonLink href={href("/runs")}>{t("toRuns")}</ButtonLink>}
        >
          {t("chooseText")}
        </EmptyState>
      </Page>
    );
  return (
    <Page title={t("title")}>
      {[a, b].map(
        ({ error, refetch }, at) =>
          error && <ProblemBox key={at === 0 ? "a" : "b"} problem={error} onRetry={() => void refetch()} />,
      )}
      {(a.isPending || b.isPending) && !a.error && !b.error && <Loading />}
      {a.data && b.data && <Compared a={a.data} b={b.data} />}
    </Page>
  );
}

/** With its records and, once it has completed, its result. */
function useRun(id: string) {
  return useRead(
    ["compared-run", id],
    async (signal) => {
      const { data } = await api.GET("/runs/{run_id}", {
        params: { path: { run_id: id }, query: { include: ["records"] } },
        signal,
      });
      return { data: data as unknown as ComparedRun };
    },
    { enabled: id !== "" },
  );
}

type ComparedRun = Run & { result?: { value?: unknown; preview?: string } | null };

function Compared({ a, b }: { a: ComparedRun; b: ComparedRun }) {
  const t = useMessages(messages);
  const [query, change] = useQueryState();
  const only = query.get("only") === "1";
  const params = useMemo(() => valueRows(a.params, b.params), [a, b]);
  const tasks = useMemo(() => taskRows(a, b), [a, b]);
  const outputs = useMemo(
    () =>
      tasks.flatMap(({ name, a: one, b: other }) =>
        valueRows(one?.output, other?.output).map((row) => ({ ...row, path: joinedPath(name, row.path) })),
      ),
    [tasks],
  );
  const results = useMemo(() => valueRows(resultOf(a), resultOf(b)), [a, b]);
  return (
    <>
      <div className={styles.tools}>
        <label className={styles.check}>
          <input
            type="checkbox"
            checked={only}
            onChange={() => change({ only: only ? null : "1" }, { replace: true })}
          />
          {t("onlyDifferences")}
        </label>
        <Button onClick={() => change({ a: b.run_id, b: a.run_id }, { replace: true })}>
          <ArrowLeftRight size={14} aria-hidden />
          {t("swap")}
        </Button>
      </div>
      <div className={styles.parts}>
        <Overview a={a} b={b} only={only} />
        <Card title={t("params")}>
          {(a.params_sha256 || b.params_sha256) && <p className={styles.soft}>{t("large")}</p>}
          <Values rows={params} only={only} />
        </Card>
        {tasks.length > 0 && (
          <Card title={t("tasks")}>
            <Tasks rows={tasks} only={only} />
          </Card>
        )}
        {results.length > 0 && (
          <Card title={t("result")}>
            <Values rows={results} only={only} />
          </Card>
        )}
        {outputs.length > 0 && (
          <Card title={t("outputs")}>
            <Values rows={outputs} only={only} />
          </Card>
        )}
      </div>
    </>
  );
}

const resultOf = ({ result }: ComparedRun): unknown => result?.value ?? result?.preview;

const joinedPath = (task: string, path: string): string =>
  path === "" || path.startsWith("[") ? `${task}${path}` : `${task}.${path}`;

interface Fact {
  name: string;
  a: ReactNode;
  b: ReactNode;
  differs: boolean;
}

const isSameValue = (one: unknown, other: unknown): boolean =>
  JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

function Overview({ a, b, only }: { a: Run; b: Run; only: boolean }) {
  const t = useMessages(messages);
  const fact = <T,>(
    name: string,
    of: (run: Run) => T,
    show: (value: T, run: Run) => ReactNode,
    isSame: (one: T, other: T) => boolean = isSameValue,
  ): Fact => {
    const [one, other] = [of(a), of(b)];
    const isDifferent = !isSame(one, other);
    const shown = (value: T, run: Run) => (value == null || value === "" ? <None /> : show(value, run));
    return { name, a: shown(one, a), b: shown(other, b), differs: isDifferent };
  };
  const text = (value: unknown) => <UserText text={String(value)} />;
  const facts = [
    fact(
      t("status"),
      (run) => run.status,
      (status) => <StatusBadge status={status} />,
    ),
    fact(t("flow"), (run) => run.flow_name, text),
    fact(t("took"), tookSec, (took) => duration(took ?? 0), isSameTime),
    fact(t("queued"), queuedSec, (took) => duration(took ?? 0), isSameTime),
    fact(t("worker"), (run) => run.worker_id, text),
    fact(t("attempt"), (run) => run.attempt, text),
    fact(t("tag"), (run) => run.tag, text),
    fact(t("labels"), (run) => run.tags.filter((each) => each !== run.tag).join(", "), text),
    fact(
      t("cause"),
      (run) => run.cause,
      (cause, run) => (cause ? <CauseMark cause={cause} tenant={run.tenant_id} /> : null),
    ),
    fact(
      t("codeVersion"),
      (run) => run.code_version,
      (version) => <code>{version}</code>,
    ),
    fact(
      t("flowYaml"),
      (run) => run.workflow_yaml_sha256,
      (digest) => <code title={digest ?? undefined}>{digest?.slice(0, 12)}</code>,
    ),
    fact(
      t("limit"),
      (run) => run.timeout_sec,
      (seconds) => interval(seconds ?? 0),
    ),
    fact(
      t("reason"),
      (run) => run.reason,
      (reason) => <code>{reason}</code>,
    ),
    fact(
      t("error"),
      (run) => run.error,
      (error) => <pre className={styles.value}>{visible(error ?? "")}</pre>,
    ),
  ];
  const shown = facts.filter((each) => each.differs || (!only && !(isNone(each.a) && isNone(each.b))));
  return (
    <Card title={t("overview")}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">
              <span className="hidden-visually">{t("value")}</span>
            </th>
            <th scope="col">
              <RunName run={a} label={t("first")} />
            </th>
            <th scope="col">
              <RunName run={b} label={t("second")} />
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => (
            <tr key={each.name} className={each.differs ? styles.differs : undefined}>
              <th scope="row">{each.name}</th>
              <td>{each.a}</td>
              <td>{each.b}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length === 0 && <p className={styles.soft}>{t("same")}</p>}
    </Card>
  );
}

const isNone = (node: ReactNode): boolean =>
  typeof node === "object" && node !== null && "type" in node && node.type === None;

function RunName({ run, label }: { run: Run; label: string }) {
  return (
    <span className={styles.run}>
      <span>{label}</span>
      <a className="mono" href={href(pathTo("/runs/:id", { id: run.run_id }))} title={run.run_id}>
        {run.run_id.slice(0, 8)}
      </a>
      <Ago at={run.submitted_at} />
    </span>
  );
}

function None() {
  const t = useMessages(messages);
  return <span className={styles.soft}>{t("none")}</span>;
}

function Values({ rows, only }: { rows: readonly ValueRow[]; only: boolean }) {
  const t = useMessages(messages);
  const all = rows.filter((row) => !only || differs(row));
  if (all.length === 0) return <p className={styles.soft}>{t("same")}</p>;
  return (
    <>
      <Columns first={t("value")}>
        {all.slice(0, MOST_ROWS).map((row) => (
          <tr key={row.path} className={differs(row) ? styles.differs : undefined}>
            <th scope="row">
              <UserText text={row.path || t("whole")} />
            </th>
            <td>{row.a === null ? <None /> : <Json text={row.a} />}</td>
            <td>{row.b === null ? <None /> : <Json text={row.b} />}</td>
          </tr>
        ))}
      </Columns>
      {all.length > MOST_ROWS && (
        <p className={styles.soft}>{t("more", { count: all.length - MOST_ROWS })}</p>
      )}
    </>
  );
}

const Json = ({ text }: { text: string }) => <pre className={styles.value}>{visible(text)}</pre>;

function Columns({ first, last, children }: { first: string; last?: string; children: ReactNode }) {
  const t = useMessages(messages);
  return (
    <table className={styles.table}>
      <thead>
        <tr>
          <th scope="col">{first}</th>
          <th scope="col">{t("first")}</th>
          <th scope="col">{t("second")}</th>
          {last && <th scope="col">{last}</th>}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

function Tasks({ rows, only }: { rows: readonly TaskRow[]; only: boolean }) {
  const t = useMessages(messages);
  const isDifferent = ({ a, b, longer }: TaskRow) =>
    a?.state !== b?.state || (longer !== null && Math.abs(longer) >= SAME_SEC);
  const all = rows.filter((row) => !only || isDifferent(row));
  if (all.length === 0) return <p className={styles.soft}>{t("same")}</p>;
  return (
    <>
      <Columns first={t("task")} last={t("difference")}>
        {all.slice(0, MOST_ROWS).map((row) => (
          <tr key={row.name} className={isDifferent(row) ? styles.differs : undefined}>
            <th scope="row">
              <UserText text={row.name} />
            </th>
            <td>{row.a ? <TaskCell side={row.a} /> : <None />}</td>
            <td>{row.b ? <TaskCell side={row.b} /> : <None />}</td>
            <td>
              <Longer row={row} />
            </td>
          </tr>
        ))}
      </Columns>
      {all.length > MOST_ROWS && (
        <p className={styles.soft}>{t("more", { count: all.length - MOST_ROWS })}</p>
      )}
    </>
  );
}

function TaskCell({ side }: { side: TaskSide }) {
  const word = useStatusText();
  // Three columns of a phone have no room for its word.
  const isNarrow = useNarrow();
  return (
    <span className={styles.run}>
      {isNarrow ? (
        <span
          className={toneClass(side.state)}
          style={{ color: "var(--tone)" }}
          role="img"
          aria-label={word(side.state)}
          title={word(side.state)}
        >
          <StatusIcon status={side.state} />
        </span>
      ) : (
        <StatusBadge status={side.state} />
      )}
      {side.took !== null && <span>{duration(side.took)}</span>}
    </span>
  );
}

function Longer({ row: { a, b, longer } }: { row: TaskRow }) {
  const t = useMessages(messages);
  if (longer === null) return null;
  if (Math.abs(longer) < SAME_SEC) return <span className={styles.soft}>{t("equal")}</span>;
  const time = duration(Math.abs(longer));
  // Of next to nothing, every change is thousands of percent.
  const percent = (a?.took ?? 0) < SAME_SEC ? null : change(a?.took ?? null, b?.took ?? null);
  const isLonger = longer > 0;
  const text =
    percent === null
      ? t(isLonger ? "longerTime" : "shorterTime", { time })
      : t(isLonger ? "longer" : "shorter", { time, percent: Math.abs(percent) });
  return <span className={isLonger ? styles.longer : styles.shorter}>{text}</span>;
}
