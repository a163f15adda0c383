/** Changes of an open question: extend, reassign, withdraw. */

import { MoreVertical } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useMay } from "../../api/access";
import { api, body, type Schemas } from "../../api/client";
import { useAct } from "../../api/queries";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { exactTime } from "../../i18n/time";
import { IconButton } from "../../ui/controls";
import { FormDialog } from "../../ui/FormDialog";
import { InputField } from "../../ui/fields";
import { Menu, MenuItem } from "../../ui/menus";
import { messages } from "./messages";
import type { Wait } from "./wait";

type Change = "extend" | "reassign" | "withdraw";

const DAY_SEC = 86_400;
const REFRESH = [["waits"], ["runs"]];

export function WaitActions({ wait }: { wait: Wait }) {
  const t = useMessages(messages);
  const mayChange = useMay("POST /waits/{wait_id}/withdraw");
  const [change, setChange] = useState<Change | null>(null);
  if (!mayChange) return null;
  const ChangeDialog = change && DIALOGS[change];
  return (
    <>
      <Menu align="end" trigger={<IconButton label={t("changeWait")} icon={<MoreVertical size={16} />} />}>
        <MenuItem onSelect={() => setChange("extend")}>{t("extend")}</MenuItem>
        <MenuItem onSelect={() => setChange("reassign")}>{t("reassign")}</MenuItem>
        <MenuItem danger onSelect={() => setChange("withdraw")}>
          {t("withdraw")}
        </MenuItem>
      </Menu>
      {ChangeDialog && <ChangeDialog wait={wait} onClose={() => setChange(null)} />}
    </>
  );
}

interface ChangeProps {
  wait: Wait;
  onClose: () => void;
}

const pathOf = ({ wait_id }: Wait) => ({ path: { wait_id } });

function ExtendDialog({ wait, onClose }: ChangeProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const [until, setUntil] = useState(localInput(wait.deadline_at + DAY_SEC));
  const [reason, setReason] = useState("");
  const extend = useAct(
    () =>
      api.POST("/waits/{wait_id}/extend", {
        params: pathOf(wait),
        body: body<Schemas["ExtendRequest"]>({
          deadline_at: new Date(until).getTime() / 1000,
          reason: reason.trim() || null,
        }),
      }),
    { quiet: true, refresh: REFRESH, onDone: onClose },
  );
  return (
    <ChangeForm title={t("extend")} act={extend} ready={until !== ""} onClose={onClose}>
      <InputField
        label={t("newDeadlineLabel")}
        hint={t("deadlineHint", { time: exactTime(wait.deadline_at, language) })}
        type="datetime-local"
        value={until}
        min={localInput(wait.deadline_at)}
        onChange={setUntil}
      />
      <ReasonField label={t("reasonOptional")} value={reason} onChange={setReason} />
    </ChangeForm>
  );
}

function ReassignDialog({ wait, onClose }: ChangeProps) {
  const t = useMessages(messages);
  const [names, setNames] = useState(wait.assignees.join(", "));
  const [reason, setReason] = useState("");
  const reassign = useAct(
    () =>
      api.POST("/waits/{wait_id}/reassign", {
        params: pathOf(wait),
        body: body<Schemas["ReassignRequest"]>({
          assignees: names
            .split(/[,、]/)
            .map((name) => name.trim())
            .filter(Boolean),
          reason: reason.trim() || null,
        }),
      }),
    { quiet: true, refresh: REFRESH, onDone: onClose },
  );
  return (
    <ChangeForm title={t("reassign")} act={reassign} ready onClose={onClose}>
      <InputField label={t("assigneesLabel")} hint={t("assigneesHint")} value={names} onChange={setNames} />
      <ReasonField label={t("reasonOptional")} value={reason} onChange={setReason} />
    </ChangeForm>
  );
}

function WithdrawDialog({ wait, onClose }: ChangeProps) {
  const t = useMessages(messages);
  const [reason, setReason] = useState("");
  const withdraw = useAct(
    () =>
      api.POST("/waits/{wait_id}/withdraw", {
        params: pathOf(wait),
        body: body<Schemas["WithdrawRequest"]>({ reason: reason.trim() }),
      }),
    { quiet: true, refresh: REFRESH, onDone: onClose },
  );
  return (
    <ChangeForm title={t("withdraw")} act={withdraw} ready={reason.trim() !== ""} onClose={onClose} danger>
      <p>{t("withdrawText")}</p>
      <ReasonField label={t("reason")} value={reason} onChange={setReason} />
    </ChangeForm>
  );
}

const DIALOGS: Record<Change, (props: ChangeProps) => ReactNode> = {
  extend: ExtendDialog,
  reassign: ReassignDialog,
  withdraw: WithdrawDialog,
};

interface ChangeFormProps {
  title: string;
  act: { mutate: () => void; isPending: boolean; error: unknown };
  /** Whether it can be sent. */
  ready: boolean;
  danger?: boolean;
  onClose: () => void;
  children: ReactNode;
}

function ChangeForm({ title, act, ready, danger, onClose, children }: ChangeFormProps) {
  const t = useMessages(messages);
  return (
    <FormDialog
      title={title}
      confirm={title}
      back={danger ? t("keepQuestion") : t("back")}
      kind={danger ? "danger" : "primary"}
      blocked={act.isPending || !ready}
      problem={act.error}
      onSubmit={() => act.mutate()}
      onClose={onClose}
    >
      {children}
    </FormDialog>
  );
}

interface ReasonFieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
}

function ReasonField(props: ReasonFieldProps) {
  const t = useMessages(messages);
  return <InputField {...props} hint={t("reasonHint")} maxLength={1000} />;
}

/** A moment as a `datetime-local` input shows it, in the browser's time zone. */
function localInput(at: number): string {
  const moment = new Date(at * 1000);
  const local = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}
