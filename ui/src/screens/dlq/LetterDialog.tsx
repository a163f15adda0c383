/** One letter in full, its run, and its actions. */

import { useRef, useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { Attempt } from "../../api/idempotencyKey";
import type { Problem } from "../../api/problem";
import { useAct, useRead } from "../../api/queries";
import { href, pathTo } from "../../app/router";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { exactTime } from "../../i18n/time";
import { CopyButton } from "../../ui/Copy";
import { Button, joined } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { Loading, ProblemBox } from "../../ui/feedback";
import { StatusBadge } from "../../ui/status";
import { Labels } from "../../ui/Tags";
import { Ago } from "../../ui/time";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { JsonValue } from "../run/details/JsonValue";
import { Traceback } from "../run/details/Traceback";
import styles from "./Dlq.module.css";
import type { Letter } from "./letters";
import { messages } from "./messages";
import { type ReplayChoice, ReplayOptions } from "./ReplayOptions";
import { useReasonText } from "./reasons";

interface LetterDialogProps {
  seq: string;
  onClose: () => void;
}

const REFRESH = [["dlq"]];
const MOST_TRACEBACKS = 3;

export function LetterDialog({ seq, onClose }: LetterDialogProps) {
  const t = useMessages(messages);
  const [how, setHow] = useState<ReplayChoice>({ mode: "start", delete: false });
  const params = { path: { seq } };
  const letter = useRead(["dlq", "one", seq], (signal) => api.GET("/dlq/{seq}", { params, signal }));
  const { replay, remove } = useLetterActions(seq, how, onClose);
  const problem: Problem | null = letter.error ?? replay.error ?? remove.error;
  return (
    <Dialog
      open
      onClose={onClose}
      width={680}
      title={t("letter", { seq })}
      actions={
        letter.data && (
          <Actions
            replayable={letter.data.replayable}
            busy={replay.isPending || remove.isPending}
            onReplay={() => replay.mutate()}
            onDelete={() => remove.mutate()}
          />
        )
      }
    >
      <div className={styles.letter}>
        {problem && <ProblemBox problem={problem} />}
        {letter.isPending && <Loading />}
        {letter.data && <LetterFacts letter={letter.data} />}
        {letter.data?.run_id && <RunFailure id={letter.data.run_id} />}
        {letter.data?.replayable && (
          <section className={styles.replay}>
            <h3>{t("replayTitle")}</h3>
            <p className={styles.soft}>{t("replayText")}</p>
            <ReplayOptions how={how} onChange={setHow} deleteLabel={t("alsoDelete")} />
          </section>
        )}
      </div>
    </Dialog>
  );
}

function useLetterActions(seq: string, how: ReplayChoice, onClose: () => void) {
  const t = useMessages(messages);
  const params = { path: { seq } };
  const attempt = useRef(new Attempt());
  const replay = useAct(
    () => {
      const header = { "Idempotency-Key": attempt.current.keyFor(JSON.stringify(how)) };
      const asked = body<Schemas["ReplayRequest"]>(how);
      return api.POST("/dlq/{seq}/replay", { params: { ...params, header }, body: asked });
    },
    {
      quiet: true,
      refresh: REFRESH,
      onDone: ({ run_id, deleted }) => {
        const link = { href: href(pathTo("/runs/:id", { id: run_id })), label: t("openRun") };
        const detail = how.delete && !deleted ? t("letterKept") : undefined;
        showToast({ tone: "good", title: t("replayed"), detail, link });
        onClose();
      },
    },
  );
  const remove = useAct(() => api.DELETE("/dlq/{seq}", { params }), {
    quiet: true,
    refresh: REFRESH,
    onDone: () => {
      showToast({ tone: "good", title: t("deleted", { seq }) });
      onClose();
    },
  });
  return { replay, remove };
}

interface ActionsProps {
  replayable: boolean;
  busy: boolean;
  onReplay: () => void;
  onDelete: () => void;
}

/** Deleting a letter needs a confirmation. */
function Actions({ replayable, busy, onReplay, onDelete }: ActionsProps) {
  const t = useMessages(messages);
  const [sure, setSure] = useState(false);
  if (sure)
    return (
      <>
        <span className={styles.sure}>{t("deleteSure")}</span>
        <Button onClick={() => setSure(false)}>{t("keepIt")}</Button>
        <Button kind="danger" disabled={busy} onClick={onDelete}>
          {t("doDelete")}
        </Button>
      </>
    );
  return (
    <>
      <Button kind="danger" onClick={() => setSure(true)}>
        {t("delete")}
      </Button>
      <Button kind="primary" disabled={!replayable || busy} onClick={onReplay}>
        {t("replay")}
      </Button>
    </>
  );
}

function LetterFacts({ letter }: { letter: Letter }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const reason = useReasonText();
  return (
    <>
      <p className={styles.headline}>
        {reason(letter.reason)} <code>{letter.reason}</code>
      </p>
      {letter.rerun && <RerunNow rerun={letter.rerun} closed={letter.closed} />}
      {letter.error && (
        <div className={styles.errorBox}>
          <pre>
            <UserText text={letter.error} />
          </pre>
          <CopyButton text={letter.error} />
        </div>
      )}
      <dl className={styles.facts}>
        <dt>{t("run")}</dt>
        <dd>{letter.run_id ? <RunNow id={letter.run_id} /> : t("noRun")}</dd>
        <dt>{t("flow")}</dt>
        <dd>
          <UserText text={letter.flow_name ?? t("noFlow")} />
        </dd>
        <dt>{t("time")}</dt>
        <dd>
          {exactTime(letter.timestamp, language)}{" "}
          <span className={styles.faint}>
            <Ago at={letter.timestamp} />
          </span>
        </dd>
        <dt>{t("worker")}</dt>
        <dd>
          {letter.worker_id && (
            <a href={href("/workers", { worker: letter.worker_id, stopped: "1", hidden: "1" })}>
              <UserText text={letter.worker_id} />
            </a>
          )}
        </dd>
        <dt>{t("tag")}</dt>
        <dd>{letter.tag && <Labels labels={[letter.tag]} />}</dd>
        <dt>{t("tags")}</dt>
        <dd>
          <Labels labels={letter.tags ?? []} />
        </dd>
        <dt>{t("delivered")}</dt>
        <dd>{letter.num_delivered}</dd>
        <dt>{t("subject")}</dt>
        <dd>{letter.subject && <code>{letter.subject}</code>}</dd>
        {letter.tenant_id && (
          <>
            <dt>{t("tenant")}</dt>
            <dd>
              <UserText text={letter.tenant_id} />
            </dd>
          </>
        )}
      </dl>
    </>
  );
}

const useRun = (id: string) =>
  useRead(["run", id, "records"], (signal) =>
    api.GET("/runs/{run_id}", { params: { path: { run_id: id }, query: { include: ["records"] } }, signal }),
  );

/** What became of the rerun: one that has completed closes the letter. */
function RerunNow({ rerun, closed }: { rerun: NonNullable<Letter["rerun"]>; closed: boolean }) {
  const t = useMessages(messages);
  return (
    <p className={joined(styles.rerun, closed && styles.closed)}>
      {t(closed ? "closedBy" : "rerunAs")}
      <a href={href(pathTo("/runs/:id", { id: rerun.run_id }))}>
        <code>{rerun.run_id.slice(0, 8)}</code>
      </a>
      <StatusBadge status={rerun.status} />
    </p>
  );
}

/** The params of the run, and where its tasks failed. */
function RunFailure({ id }: { id: string }) {
  const t = useMessages(messages);
  const { data: run } = useRun(id);
  if (!run) return null;
  const records = (run.task_records ?? {}) as Record<string, { traceback?: string | null }>;
  const failures = Object.entries(records).flatMap(([name, { traceback }]) =>
    traceback ? [{ name, traceback }] : [],
  );
  return (
    <>
      {failures.slice(0, MOST_TRACEBACKS).map(({ name, traceback }) => (
        <section key={name} className={styles.part}>
          <h3>{t("tracebackOf", { task: name })}</h3>
          <Traceback text={traceback} />
        </section>
      ))}
      <section className={styles.part}>
        <h3>{t("params")}</h3>
        {Object.keys(run.params).length > 0 ? (
          <JsonValue value={run.params} label={t("params")} />
        ) : (
          <p className={styles.soft}>{t("noParams")}</p>
        )}
      </section>
    </>
  );
}

/** The run of the letter, which may have been removed since. */
function RunNow({ id }: { id: string }) {
  const t = useMessages(messages);
  const { data, error } = useRun(id);
  if (error?.status === 404)
    return (
      <>
        <code>{id}</code> <span className={styles.faint}>{t("runGone")}</span>
      </>
    );
  return (
    <span className={styles.run}>
      <a href={href(pathTo("/runs/:id", { id }))}>
        <code>{id}</code>
      </a>
      {data && <StatusBadge status={data.status} />}
    </span>
  );
}
