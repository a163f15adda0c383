/** The actions: which flow each one starts. */
import { Pencil, Plus, Trash2, Workflow } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { useAct, useRead } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { folded } from "../../lib/folding";
import { deleteAction, readActions, saveAction, type WorkflowAction } from "../../triggers/eventApi";
import { FlowFields, useBindingFindings } from "../../triggers/FlowFields";
import { bindingDraft, bindingFields, EMPTY_BINDING, objectText } from "../../triggers/flowBinding";
import { messages as common } from "../../triggers/messages";
import styles from "../../triggers/Triggers.module.css";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button, IconButton, Input } from "../../ui/controls";
import { type Draft, errorsByField, FormContext, TextField } from "../../ui/draftForm";
import { FormDialog } from "../../ui/FormDialog";
import { ProblemBox } from "../../ui/feedback";
import { messages as uiMessages } from "../../ui/messages";
import { Tags } from "../../ui/Tags";
import { showToast } from "../../ui/toasts";
import { UserText } from "../../ui/UserText";
import { Panel } from "../run/Panel";
import { messages } from "./messages";

const EVERY_MS = 5_000;
const REFRESH = [["templates"]];
/** Until somebody asks for all: each flow of the workers is one. */
const FIRST = 20;
type Asked = { edit: WorkflowAction | null } | { remove: WorkflowAction };

/** What people have bound comes before what the workers bring along. */
export const ownFirst = (actions: readonly WorkflowAction[]): WorkflowAction[] =>
  [...actions].sort((a, b) => Number(a.implied) - Number(b.implied));

export function Actions() {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [asked, setAsked] = useState<Asked | null>(null);
  const may = useMay("PUT /api/workflow-actions/{key}");
  const { data, error } = useRead(["templates", "actions"], readActions, { every: EVERY_MS });
  const close = () => setAsked(null);
  const [search, setSearch] = useState("");
  const [isWhole, setWhole] = useState(false);
  const all = data?.items ?? [];
  const found = ownFirst(all).filter(({ key, flow_name }) =>
    folded(`${key}\n${flow_name}`).includes(folded(search)),
  );
  return (
    <Panel
      title={t("actions")}
      icon={Workflow}
      actions={
        <Button disabled={!may} onClick={() => setAsked({ edit: null })}>
          <Plus size={14} aria-hidden />
          {t("newAction")}
        </Button>
      }
    >
      {error && <ProblemBox problem={error} />}
      <p className={styles.nothing}>{data?.items.length === 0 ? t("noActions") : t("actionsNote")}</p>
      {all.length > FIRST && (
        <div className={styles.filter}>
          <Input
            type="search"
            aria-label={t("searchActions")}
            placeholder={t("searchActions")}
            value={search}
            onChange={({ target }) => setSearch(target.value)}
          />
        </div>
      )}
      {data && data.items.length > 0 && (
        <table className={styles.table}>
          <thead>
            <tr>
              <th scope="col">{t("action")}</th>
              <th scope="col">{c("flow")}</th>
              <th scope="col">{c("tag")}</th>
              <th scope="col">
                <span className="hidden-visually">{c("edit")}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {found.slice(0, isWhole ? undefined : FIRST).map((action) => (
              <Row key={action.key} action={action} may={may} onAsk={setAsked} />
            ))}
          </tbody>
        </table>
      )}
      {all.length > 0 && found.length === 0 && <p className={styles.nothing}>{t("noAction")}</p>}
      {!isWhole && found.length > FIRST && (
        <div className={styles.filter}>
          <Button onClick={() => setWhole(true)}>{t("allActions", { count: found.length })}</Button>
        </div>
      )}
      {asked && "edit" in asked && <ActionForm stored={asked.edit} onClose={close} />}
      {asked && "remove" in asked && (
        <ConfirmDialog
          title={t("deleteActionTitle", { name: asked.remove.key })}
          text={t("deleteActionText")}
          confirm={c("delete")}
          back={c("keep")}
          refresh={REFRESH}
          act={() => deleteAction(asked.remove.key)}
          onDone={() => showToast({ tone: "good", title: c("isDeleted", { name: asked.remove.key }) })}
          onClose={close}
        />
      )}
    </Panel>
  );
}

interface RowProps {
  action: WorkflowAction;
  may: boolean;
  onAsk: (asked: Asked) => void;
}

function Row({ action, may, onAsk }: RowProps) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const { key, flow_name: flow, implied } = action;
  return (
    <tr data-action={key}>
      <th scope="row">
        <UserText text={key} />
      </th>
      <td data-head={c("flow")}>
        <UserText text={flow} /> {action.has_workflow_yaml && <Tags tags={["flow.yaml"]} />}
        {implied && <span className={styles.soft}> {t("implied")}</span>}
      </td>
      <td data-head={c("tag")}>
        <UserText text={action.tag} />
      </td>
      <td className={styles.end}>
        <IconButton
          label={t("editAction", { name: key })}
          icon={<Pencil size={15} />}
          disabled={!may}
          onClick={() => onAsk({ edit: action })}
        />
        {!implied && (
          <IconButton
            label={t("deleteAction", { name: key })}
            icon={<Trash2 size={15} />}
            disabled={!may}
            onClick={() => onAsk({ remove: action })}
          />
        )}
      </td>
    </tr>
  );
}

function ActionForm({ stored, onClose }: { stored: WorkflowAction | null; onClose: () => void }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const u = useMessages(uiMessages);
  const [draft, setDraft] = useState<Draft>(() => ({
    key: stored?.key ?? "",
    ...(stored ? bindingDraft(stored) : EMPTY_BINDING),
  }));
  const [tried, setTried] = useState(false);
  const save = useAct(() => saveAction((draft.key ?? "").trim(), objectText(bindingFields(draft))), {
    quiet: true,
    refresh: REFRESH,
    onDone: ({ action }) => {
      showToast({ tone: "good", title: c("isSaved", { name: action.key }) });
      onClose();
    },
  });
  const own = {
    ...useBindingFindings(draft),
    ...(draft.key?.trim() === "" && { key: t("requiredKey") }),
  };
  const serverErrors = errorsByField(save.error, Object.keys(draft));
  const submit = () => {
    setTried(true);
    if (Object.keys(own).length === 0 && !save.isPending) save.mutate();
  };
  const change = (patch: Draft) => {
    save.reset();
    setDraft((now) => ({ ...now, ...patch }));
  };
  return (
    <FormDialog
      title={stored ? t("editActionTitle", { name: stored.key }) : t("actionTitle")}
      width={640}
      confirm={save.isPending ? u("saving") : u("save")}
      isPending={save.isPending}
      problem={serverErrors.rest}
      onSubmit={submit}
      onClose={onClose}
    >
      <FormContext value={{ draft, change, wrong: { ...serverErrors.wrong, ...(tried ? own : {}) } }}>
        <div className={styles.fields}>
          <TextField
            name="key"
            label={t("key")}
            hint={stored ? t("keyFixed") : t("keyHint")}
            disabled={stored !== null}
            required={stored === null}
            maxLength={48}
          />
          <FlowFields />
        </div>
      </FormContext>
    </FormDialog>
  );
}
