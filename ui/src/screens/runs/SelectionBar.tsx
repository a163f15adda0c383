/** The actions on selected runs. */
import { X } from "lucide-react";
import { useState } from "react";
import { api, body, type Schemas } from "../../api/client";
import { Problem } from "../../api/problem";
import { useMessages } from "../../i18n/messages";
import { Button, Field, IconButton, Input } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { showProblem, showToast } from "../../ui/toasts";
import dialogStyles from "./BulkDialog.module.css";
import { messages } from "./messages";
import styles from "./Runs.module.css";

const AT_ONCE = 6;

interface SelectionBarProps {
  selected: ReadonlySet<string>;
  onClear: () => void;
}

export function SelectionBar({ selected, onClear }: SelectionBarProps) {
  const t = useMessages(messages);
  const [busy, setBusy] = useState(false);
  const [asking, setAsking] = useState(false);
  if (selected.size === 0) return null;
  const act = async (action: "cancel" | "rerun", reason = "") => {
    setAsking(false);
    setBusy(true);
    const failures = await forEach([...selected], (run_id) =>
      action === "cancel"
        ? api.POST("/runs/{run_id}/cancel", {
            params: { path: { run_id } },
            body: body<Schemas["CancelRequest"]>({ reason: reason.trim() || null }),
          })
        : api.POST("/runs/{run_id}/rerun", { params: { path: { run_id } } }),
    );
    setBusy(false);
    onClear();
    const count = selected.size - failures.length;
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
        {t("selected", { count: selected.size })}
        <Button disabled={busy} onClick={() => void act("rerun")}>
          {t("rerun")}
        </Button>
        <Button kind="danger" disabled={busy} onClick={() => setAsking(true)}>
          {t("cancel")}
        </Button>
        <IconButton label={t("clearSelection")} icon={<X size={15} />} onClick={onClear} />
      </section>
      {asking && (
        <CancelDialog
          count={selected.size}
          onCancel={(reason) => void act("cancel", reason)}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

interface CancelDialogProps {
  count: number;
  onCancel: (reason: string) => void;
  onClose: () => void;
}

function CancelDialog({ count, onCancel, onClose }: CancelDialogProps) {
  const t = useMessages(messages);
  const [reason, setReason] = useState("");
  return (
    <Dialog
      open
      onClose={onClose}
      title={t("cancelSelected", { count })}
      width={460}
      actions={
        <>
          <Button onClick={onClose}>{t("keepAll")}</Button>
          <Button kind="danger" onClick={() => onCancel(reason)}>
            {t("doCancel", { count })}
          </Button>
        </>
      }
    >
      <form
        className={dialogStyles.content}
        onSubmit={(event) => {
          event.preventDefault();
          onCancel(reason);
        }}
      >
        <p className={dialogStyles.soft}>{t("endedStay")}</p>
        <Field label={t("reason")} hint={t("reasonHint")}>
          {(wired) => (
            <Input
              {...wired}
              value={reason}
              maxLength={500}
              onChange={(event) => setReason(event.target.value)}
            />
          )}
        </Field>
      </form>
    </Dialog>
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
