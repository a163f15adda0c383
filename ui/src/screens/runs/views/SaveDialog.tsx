/** Gives a view its name: a new one, or another one. */
import { type FormEvent, useState } from "react";
import { useAct } from "../../../api/queries";
import { useQueryState } from "../../../app/router";
import { useMessages } from "../../../i18n/messages";
import { Button, Field, Input, Segments } from "../../../ui/controls";
import { Dialog } from "../../../ui/Dialog";
import { ProblemBox } from "../../../ui/feedback";
import { showToast } from "../../../ui/toasts";
import { columnsIn } from "../columnNames";
import { useColumns } from "../useColumns";
import { messages } from "./messages";
import { ownViews, putView, REFRESH, saveOwn } from "./useViews";
import type { Saved } from "./ViewBar";
import styles from "./ViewBar.module.css";
import { contentOf, queryOf, requestOf } from "./views";

export type Naming = { kind: "save" } | { kind: "rename"; view: Saved };

const NAME_CHARS = 80;
const NEW = 0;

interface SaveDialogProps {
  naming: Naming;
  mayShare: boolean;
  onSaved: (saved: Saved) => void;
  onClose: () => void;
}

export function SaveDialog({ naming, mayShare, onSaved, onClose }: SaveDialogProps) {
  const t = useMessages(messages);
  const [query] = useQueryState();
  const [shown] = useColumns();
  const renamed = naming.kind === "rename" ? naming.view : null;
  const [name, setName] = useState(renamed?.name ?? "");
  const [forWhom, setForWhom] = useState<"team" | "me">(mayShare ? "team" : "me");
  const [withColumns, setWithColumns] = useState(columnsIn(query) !== null);
  const [isTaken, setTaken] = useState(false);
  const isShared = renamed ? renamed.shared !== null : forWhom === "team";
  const trimmed = name.trim();

  const content = new URLSearchParams(renamed ? renamed.query : query);
  if (!renamed) {
    content.delete("columns");
    if (withColumns) content.set("columns", shown.join(","));
  }
  const done = (saved: Saved) => {
    showToast({ tone: "good", title: t("saved", { name: saved.name }) });
    onClose();
    onSaved(saved);
  };
  const store = useAct(
    () =>
      renamed?.shared
        ? putView(renamed.name, requestOf(content), { name: trimmed, revision: renamed.shared.revision })
        : putView(trimmed, requestOf(content), { revision: NEW }),
    {
      quiet: true,
      refresh: REFRESH,
      onDone: (shared) => done({ name: shared.name, query: queryOf(shared), shared }),
    },
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isShared) {
      store.mutate();
      return;
    }
    if (trimmed !== renamed?.name && ownViews.get().some((view) => view.name === trimmed)) {
      setTaken(true);
      return;
    }
    saveOwn({ name: trimmed, query: contentOf(content) }, renamed?.name);
    done({ name: trimmed, query: content, shared: null });
  };
  const nameProblem = store.error?.fields.find(({ field }) => field === "name" || field === "view_name");
  const conflict = store.error?.status === 409;
  return (
    <Dialog
      open
      onClose={onClose}
      title={renamed ? t("renameTitle", { name: renamed.name }) : t("saveTitle")}
      width={440}
      actions={
        <Button kind="primary" type="submit" form="save-view" disabled={!trimmed || store.isPending}>
          {t("save")}
        </Button>
      }
    >
      <form id="save-view" className={styles.form} onSubmit={submit}>
        {store.error && !nameProblem && !conflict && <ProblemBox problem={store.error} />}
        <Field
          label={t("name")}
          hint={t("nameHint")}
          error={
            isTaken
              ? t("taken")
              : conflict
                ? store.error?.detail || t("taken")
                : (nameProblem?.message ?? null)
          }
        >
          {(wired) => (
            <Input
              {...wired}
              value={name}
              maxLength={NAME_CHARS}
              onChange={(event) => {
                setName(event.target.value);
                setTaken(false);
                store.reset();
              }}
            />
          )}
        </Field>
        {!renamed && mayShare && (
          <Segments
            label={t("for")}
            value={forWhom}
            options={(["team", "me"] as const).map((value) => ({ value, label: t(`for.${value}`) }))}
            onChange={setForWhom}
          />
        )}
        {!renamed && (
          <label className={styles.check}>
            <input
              type="checkbox"
              checked={withColumns}
              onChange={({ target }) => setWithColumns(target.checked)}
            />
            {t("columnsToo")}
          </label>
        )}
      </form>
    </Dialog>
  );
}
