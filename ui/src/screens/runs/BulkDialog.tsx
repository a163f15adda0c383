/** Cancel or rerun all matching runs: counted first, then confirmed. */

import { useEffect, useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { useAct, useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Button, Segments } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { InputField } from "../../ui/fields";
import { UserText } from "../../ui/UserText";
import styles from "./BulkDialog.module.css";
import { messages } from "./messages";
import { TouchedRuns, useTouched } from "./TouchedRuns";
import { type BulkAction, touchedBy } from "./touched";
import { type BulkRequest, useBulk } from "./useBulk";

type Mode = "start" | "failed";
interface BulkOptions {
  reason: string;
  mode: Mode;
  keepAnswers: boolean;
}

interface BulkDialogProps {
  action: BulkAction | null;
  filter: string;
  /** How many match, if known: those that are not touched are counted too. */
  matching: number | null;
  onClose: () => void;
}

export function BulkDialog({ action, filter, matching, onClose }: BulkDialogProps) {
  const t = useMessages(messages);
  if (!action) return null;
  const touched = touchedBy(action, filter);
  const title = action === "cancel" ? t("bulkCancelTitle") : t("bulkRerunTitle");
  if (touched !== null)
    return (
      <OpenBulkDialog action={action} title={title} filter={touched} matching={matching} onClose={onClose} />
    );
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      width={520}
      actions={<Button onClick={onClose}>{t("close")}</Button>}
    >
      <p>{action === "cancel" ? t("noneToCancel") : t("noneToRerun")}</p>
    </Dialog>
  );
}

function post(action: BulkAction, filter: string, options: BulkOptions, how: BulkRequest, key?: string) {
  const given = new URLSearchParams(filter);
  const query = Object.fromEntries([...new Set(given.keys())].map((name) => [name, given.getAll(name)]));
  // The parameters of the list, which were validated.
  const params = { query: query as never, header: { "Idempotency-Key": key } };
  if (action === "rerun")
    return api.POST("/bulk/rerun", {
      params,
      body: body<Schemas["BulkRerunRequest"]>({
        ...how,
        mode: options.mode,
        ...(options.keepAnswers && { keep_answers: true }),
      }),
    });
  return api.POST("/bulk/cancel", {
    params,
    body: body<Schemas["BulkCancelRequest"]>({ ...how, reason: options.reason.trim() || null }),
  });
}

function OpenBulkDialog(props: BulkDialogProps & { action: BulkAction; title: string }) {
  const { action, title, filter, matching, onClose } = props;
  const t = useMessages(messages);
  const [options, setOptions] = useState<BulkOptions>({ reason: "", mode: "start", keepAnswers: false });
  const bulk = useBulk((asked, key) => post(action, filter, options, asked, key), JSON.stringify(options));
  const { matched, operation } = bulk;
  const isCancel = action === "cancel";
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      width={520}
      actions={
        operation ? (
          <Button onClick={onClose}>{t("close")}</Button>
        ) : (
          <>
            <Button onClick={onClose}>{t("keepAll")}</Button>
            <Button
              kind={isCancel ? "danger" : "primary"}
              disabled={matched === 0 || bulk.starting}
              onClick={bulk.start}
            >
              {isCancel ? t("doCancel", { count: matched }) : t("doRerun", { count: matched })}
            </Button>
          </>
        )
      }
    >
      <div className={styles.content}>
        {bulk.countProblem && <ProblemBox problem={bulk.countProblem} onRetry={bulk.recount} />}
        {bulk.startProblem && <ProblemBox problem={bulk.startProblem} />}
        {bulk.before !== null && (
          <p role="alert">{t("countChanged", { before: bulk.before, count: matched })}</p>
        )}
        {bulk.counting && <p role="status">{t("counting")}</p>}
        {operation ? (
          <Operation begun={operation} />
        ) : (
          bulk.counted && (
            <Question
              action={action}
              filter={filter}
              count={matched}
              left={matching === null ? 0 : Math.max(0, matching - matched)}
              options={options}
              onOptions={setOptions}
            />
          )
        )}
      </div>
    </Dialog>
  );
}

interface QuestionProps {
  action: BulkAction;
  filter: string;
  count: number;
  /** How many match and are not touched. */
  left: number;
  options: BulkOptions;
  onOptions: (options: BulkOptions) => void;
}

function Question({ action, filter, count, left, options, onOptions }: QuestionProps) {
  const t = useMessages(messages);
  const runs = useTouched(filter);
  if (count === 0) return <p>{action === "cancel" ? t("noneToCancel") : t("noneToRerun")}</p>;
  return (
    <>
      <p className={styles.count}>
        {action === "cancel" ? t("willCancel", { count }) : t("willRerun", { count })}
      </p>
      <TouchedRuns runs={runs} count={count} />
      {left > 0 && (
        <p className={styles.soft}>
          {action === "cancel" ? t("endedStay", { count: left }) : t("activeStay", { count: left })}
        </p>
      )}
      {action === "cancel" ? (
        <InputField
          label={t("reason")}
          hint={t("reasonHint")}
          value={options.reason}
          maxLength={500}
          onChange={(reason) => onOptions({ ...options, reason })}
        />
      ) : (
        <div className={styles.options}>
          <Segments
            label={t("mode")}
            value={options.mode}
            options={(["start", "failed"] as const).map((value) => ({ value, label: t(`mode.${value}`) }))}
            onChange={(mode) => onOptions({ ...options, mode })}
          />
          <label className={styles.check}>
            <input
              type="checkbox"
              checked={options.keepAnswers}
              onChange={({ target }) => onOptions({ ...options, keepAnswers: target.checked })}
            />
            {t("keepAnswers")}
          </label>
          <p className={styles.soft}>{t("keepAnswersHint")}</p>
        </div>
      )}
    </>
  );
}

const POLL_MS = 400;

/** The progress. The operation continues when the dialog is closed. */
export function Operation({ begun }: { begun: Schemas["BulkRecord"] }) {
  const t = useMessages(messages);
  const path = { bulk_id: begun.bulk_id };
  const [ended, setEnded] = useState(false);
  const { data } = useRead(
    ["bulk", begun.bulk_id],
    (signal) => api.GET("/bulk/{bulk_id}", { params: { path }, signal }),
    { every: ended ? undefined : POLL_MS },
  );
  const stop = useAct(() => api.POST("/bulk/{bulk_id}/stop", { params: { path } }));
  const now = data ?? begun;
  const { done, skipped, failed, matched, state } = now;
  useEffect(() => setEnded(state !== "RUNNING"), [state]);
  const over = done + skipped + failed;
  return (
    <>
      <div className={styles.head}>
        <strong role="status">{t(`state.${state}`)}</strong>
        <span>{t("progress", { over, total: matched })}</span>
        {state === "RUNNING" && <Button onClick={() => stop.mutate()}>{t("stop")}</Button>}
      </div>
      <progress className={styles.progress} max={matched} value={over} aria-label={t(`state.${state}`)} />
      <p className={styles.soft}>{t("outcome", { done, skipped, failed })}</p>
      <ul className={styles.errors}>
        {now.errors.slice(0, 5).map((error) => (
          <li key={error.item}>
            <code>{error.item.slice(0, 8)}</code> <UserText text={error.message} />{" "}
            <code>{error.err_id}</code>
          </li>
        ))}
      </ul>
    </>
  );
}
