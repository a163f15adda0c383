/** Replay or delete the selected letters, or all matching ones: counted and named first, then confirmed. */
import { useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { ProblemBox } from "../../ui/feedback";
import { Operation } from "../runs/BulkDialog";
import { type BulkRequest, useBulk } from "../runs/useBulk";
import styles from "./Dlq.module.css";
import type { LetterFilter } from "./filters";
import type { Letter } from "./letters";
import { messages } from "./messages";
import { type ReplayChoice, ReplayOptions } from "./ReplayOptions";
import { MatchingLetters, TouchedLetters } from "./TouchedLetters";

export type BulkAction = "replay" | "delete";

export interface BulkRequested {
  action: BulkAction;
  filter: LetterFilter;
  /** The selected letters; undefined: all that match. */
  chosen?: readonly Letter[];
}

interface BulkDialogProps extends BulkRequested {
  onClose: (started: boolean) => void;
}

function post(action: BulkAction, query: LetterFilter, how: ReplayChoice, what: BulkRequest, key?: string) {
  const params = { query, header: { "Idempotency-Key": key } };
  if (action === "delete")
    return api.POST("/dlq/delete", { params, body: body<Schemas["BulkRequest"]>(what) });
  return api.POST("/dlq/replay", {
    params,
    body: body<Schemas["BulkReplayRequest"]>({ ...what, ...how }),
  });
}

export function BulkDialog({ action, filter, chosen, onClose }: BulkDialogProps) {
  const t = useMessages(messages);
  const [how, setHow] = useState<ReplayChoice>({ mode: "start", delete: false });
  const bulk = useBulk((asked, key) => post(action, filter, how, asked, key), JSON.stringify(how));
  const { matched, operation } = bulk;
  const isReplay = action === "replay";
  const close = () => {
    if (operation) void queryClient.invalidateQueries({ queryKey: ["dlq"] });
    onClose(operation !== null);
  };
  const title = chosen
    ? t(isReplay ? "replayChosenTitle" : "deleteChosenTitle")
    : t(isReplay ? "bulkReplayTitle" : "bulkDeleteTitle");
  return (
    <Dialog
      open
      onClose={close}
      title={title}
      width={520}
      actions={
        operation ? (
          <Button onClick={close}>{t("close")}</Button>
        ) : (
          <>
            <Button onClick={close}>{t("keepAll")}</Button>
            <Button
              kind={isReplay ? "primary" : "danger"}
              disabled={matched === 0 || bulk.starting}
              onClick={bulk.start}
            >
              {isReplay ? t("doReplayAll", { count: matched }) : t("doDeleteAll", { count: matched })}
            </Button>
          </>
        )
      }
    >
      <div className={styles.letter}>
        {bulk.countProblem && <ProblemBox problem={bulk.countProblem} onRetry={bulk.recount} />}
        {bulk.startProblem && <ProblemBox problem={bulk.startProblem} />}
        {bulk.before !== null && (
          <p role="alert">{t("countChanged", { before: bulk.before, count: matched })}</p>
        )}
        {bulk.counting && <p role="status">{t("counting")}</p>}
        {operation && <Operation begun={operation} />}
        {!operation && bulk.counted && (
          <Question action={action} matched={matched} filter={filter} chosen={chosen} />
        )}
        {!operation && isReplay && matched > 0 && (
          <ReplayOptions how={how} onChange={setHow} deleteLabel={t("alsoDeleteAll")} />
        )}
      </div>
    </Dialog>
  );
}

function Question({ action, matched, filter, chosen }: BulkRequested & { matched: number }) {
  const t = useMessages(messages);
  const all = Object.keys(filter).every((name) => name === "state");
  if (matched === 0) return <p>{t("matchesNone")}</p>;
  return (
    <>
      <p className={styles.headline}>
        {action === "replay" ? t("willReplay", { count: matched }) : t("willDelete", { count: matched })}
      </p>
      {all && <p className={styles.soft}>{t(filter.state ? `every.${filter.state}` : "everyLetter")}</p>}
      {chosen ? (
        <TouchedLetters letters={chosen} count={matched} />
      ) : (
        <MatchingLetters filter={filter} count={matched} />
      )}
    </>
  );
}
