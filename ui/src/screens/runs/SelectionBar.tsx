/** The actions on selected runs. */

import { X } from "lucide-react";
import { useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { Problem } from "../../api/problem";
import { useMessages } from "../../i18n/messages";
import { Arming } from "../../ui/arming";
import { Button, IconButton } from "../../ui/controls";
import { FormDialog } from "../../ui/FormDialog";
import { InputField } from "../../ui/fields";
import { showProblem, showToast } from "../../ui/toasts";
import { CompareTwo } from "../compare/CompareTwo";
import dialogStyles from "./BulkDialog.module.css";
import { messages } from "./messages";
import styles from "./Runs.module.css";
import type { Run, RunList } from "./runList";
import { TouchedRuns } from "./TouchedRuns";
import { type BulkAction, isTouched } from "./touched";
import type { Selection } from "./useSelection";

const AT_ONCE = 6;

interface SelectionBarProps {
  selection: Selection;
  list: RunList;
  /** How many match; null: unknown, or more than are counted. */
  matching: number | null;
  /** Count, name and confirm an action on all that match. */
  onBulk: (action: BulkAction) => void;
}

export function SelectionBar(props: SelectionBarProps) {
  const { selection, list, matching, onBulk } = props;
  if (selection.everything)
    return <EverythingBar matching={matching} onBulk={onBulk} onClear={selection.clear} />;
  return <SomeBar selection={selection} list={list} matching={matching} />;
}

interface EverythingBarProps {
  matching: number | null;
  onBulk: (action: BulkAction) => void;
  onClear: () => void;
}

function EverythingBar({ matching, onBulk, onClear }: EverythingBarProps) {
  const t = useMessages(messages);
  const label = matching === null ? t("everything") : t("everythingCount", { count: matching });
  return (
    <section className={styles.selection} aria-label={label}>
      <div className={styles.selectionParts}>
        <span role="status">{label}</span>
        <Button onClick={() => onBulk("rerun")}>{t("bulkRerun")}</Button>
        <Button kind="danger" onClick={() => onBulk("cancel")}>
          {t("bulkCancel")}
        </Button>
      </div>
      <IconButton label={t("clearSelection")} icon={<X size={15} />} onClick={onClear} />
    </section>
  );
}

function SomeBar({ selection, list, matching }: Omit<SelectionBarProps, "onBulk">) {
  const t = useMessages(messages);
  const [busy, setBusy] = useState(false);
  const [asking, setAsking] = useState(false);
  const { ids: selected, clear: onClear } = selection;
  const { rows, order } = list;
  if (selected.size === 0) return null;
  const hasAllLoaded = order.every((id) => selected.has(id));
  const hasMore = list.cursor !== null || (matching !== null && matching > order.length);
  const runs = [...selected].flatMap((id) => rows.get(id) ?? []);
  const touched = (action: BulkAction) => runs.filter(({ status }) => isTouched(action, status));
  const act = async (action: BulkAction, reason = "") => {
    const chosen = touched(action);
    setAsking(false);
    setBusy(true);
    const failures = await forEach([...chosen], ({ run_id }) =>
      action === "cancel"
        ? api.POST("/runs/{run_id}/cancel", {
            params: { path: { run_id } },
            body: body<Schemas["CancelRequest"]>({ reason: reason.trim() || null }),
          })
        : api.POST("/runs/{run_id}/rerun", { params: { path: { run_id } } }),
    );
    setBusy(false);
    onClear();
    const count = chosen.length - failures.length;
    if (count > 0)
      showToast({
        tone: "good",
        title: action === "cancel" ? t("doneCancel", { count }) : t("doneRerun", { count }),
      });
    const [first] = failures;
    if (first) {
      const title = t("someFailed", { count: failures.length, why: first.title });
      showProblem(new Problem(title, first.detail, first.status, first.errId));
    }
  };
  return (
    <>
      <section className={styles.selection} aria-label={t("selected", { count: selected.size })}>
        <div className={styles.selectionParts}>
          {t("selected", { count: selected.size })}
          {!hasAllLoaded && (
            <Button kind="plain" onClick={() => selection.select(order)}>
              {t("selectLoaded", { count: order.length })}
            </Button>
          )}
          {hasAllLoaded && hasMore && (
            <Button kind="plain" onClick={selection.selectEverything}>
              {matching === null ? t("selectEverything") : t("selectEverythingCount", { count: matching })}
            </Button>
          )}
          <Arming>
            <Button
              kind="primary"
              disabled={busy || touched("rerun").length === 0}
              onClick={() => void act("rerun")}
            >
              {t("rerunCount", { count: touched("rerun").length })}
            </Button>
          </Arming>
          <Button
            kind="danger"
            disabled={busy || touched("cancel").length === 0}
            onClick={() => setAsking(true)}
          >
            {t("cancelCount", { count: touched("cancel").length })}
          </Button>
          <CompareTwo runs={runs} />
        </div>
        <IconButton label={t("clearSelection")} icon={<X size={15} />} onClick={onClear} />
      </section>
      {asking && (
        <CancelDialog
          runs={touched("cancel")}
          left={selected.size - touched("cancel").length}
          onCancel={(reason) => void act("cancel", reason)}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

interface CancelDialogProps {
  runs: readonly Run[];
  /** How many are selected and cannot be cancelled. */
  left: number;
  onCancel: (reason: string) => void;
  onClose: () => void;
}

function CancelDialog({ runs, left, onCancel, onClose }: CancelDialogProps) {
  const t = useMessages(messages);
  const count = runs.length;
  const [reason, setReason] = useState("");
  return (
    <FormDialog
      title={t("cancelSelected", { count })}
      confirm={t("doCancel", { count })}
      back={t("keepAll")}
      kind="danger"
      onSubmit={() => onCancel(reason)}
      onClose={onClose}
    >
      <TouchedRuns runs={runs} count={count} />
      {left > 0 && <p className={dialogStyles.soft}>{t("endedStay", { count: left })}</p>}
      <InputField
        label={t("reason")}
        hint={t("reasonHint")}
        value={reason}
        maxLength={500}
        onChange={setReason}
      />
    </FormDialog>
  );
}

/** A few at a time; returns the failures. */
async function forEach<T>(items: T[], act: (item: T) => Promise<unknown>): Promise<Problem[]> {
  const failures: Problem[] = [];
  const worker = async () => {
    for (let item = items.shift(); item !== undefined; item = items.shift())
      await act(item).catch((error: unknown) => failures.push(Problem.from(error)));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return failures;
}
