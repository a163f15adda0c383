/** The actions of a hook: test, edit, rotate its secret, delete. */

import { Ellipsis, FlaskConical, KeyRound, Pencil, ShieldOff, Trash2 } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/access";
import { href, navigate } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { deleteHook, finishRotation, type Hook, rotateHook } from "../../triggers/hookApi";
import { messages as common } from "../../triggers/messages";
import { hookHref, hookRef } from "../../triggers/triggerRef";
import { ConfirmDialog } from "../../ui/ConfirmDialog";
import { Button, ButtonLink, IconButton } from "../../ui/controls";
import { SelectField } from "../../ui/fields";
import { Menu, MenuItem, MenuLabel, MenuLine } from "../../ui/menus";
import { showToast } from "../../ui/toasts";
import { HookTest } from "./HookTest";
import { messages } from "./messages";
import { keepSecret } from "./newSecret";

type Asked = "test" | "rotate" | "finish" | "delete";
const DIALOGS = { test: HookTest, rotate: RotateDialog, finish: FinishDialog, delete: DeleteDialog };
const REFRESH = [["hook"], ["hooks"]];
const KEPT = ["finish", "3600", "86400", "604800", "0"] as const;

export function HookActions({ hook }: { hook: Hook }) {
  const t = useMessages(messages);
  const c = useMessages(common);
  const [asked, setAsked] = useState<Asked | null>(null);
  const may = useMay("PATCH /hooks/{hook_id}");
  const Asking = asked && DIALOGS[asked];
  return (
    <>
      <Button onClick={() => setAsked("test")}>
        <FlaskConical size={14} aria-hidden />
        {c("test")}
      </Button>
      {may && (
        <ButtonLink href={hookHref(hookRef(hook), "/edit")}>
          <Pencil size={14} aria-hidden />
          {c("edit")}
        </ButtonLink>
      )}
      <Menu
        align="end"
        trigger={<IconButton label={c("more")} icon={<Ellipsis size={16} />} kind="normal" />}
      >
        {!may && <MenuLabel>{c("needsScope")}</MenuLabel>}
        {hook.secrets.length > 0 && (
          <MenuItem disabled={!may} onSelect={() => setAsked("rotate")}>
            <KeyRound size={14} aria-hidden />
            {t("rotate")}
          </MenuItem>
        )}
        {hook.secrets.length > 1 && (
          <MenuItem disabled={!may} onSelect={() => setAsked("finish")}>
            <ShieldOff size={14} aria-hidden />
            {t("finish")}
          </MenuItem>
        )}
        <MenuLine />
        <MenuItem danger disabled={!may} onSelect={() => setAsked("delete")}>
          <Trash2 size={14} aria-hidden />
          {c("deleteIt")}
        </MenuItem>
      </Menu>
      {Asking && <Asking hook={hook} onClose={() => setAsked(null)} />}
    </>
  );
}

interface AskedProps {
  hook: Hook;
  onClose: () => void;
}

function RotateDialog({ hook, onClose }: AskedProps) {
  const t = useMessages(messages);
  const [keep, setKeep] = useState<string>(KEPT[0]);
  return (
    <ConfirmDialog
      title={t("rotateTitle", { hook: hook.hook_id })}
      text={t("rotateText")}
      confirm={t("doRotate")}
      kind="primary"
      refresh={REFRESH}
      act={() =>
        rotateHook(hookRef(hook), { secret: null, keep_sec: keep === "finish" ? null : Number(keep) })
      }
      onDone={keepSecret}
      onClose={onClose}
    >
      <SelectField
        label={t("keepOld")}
        options={KEPT}
        text={(each) => t(`keep.${each}`)}
        value={keep}
        onChange={setKeep}
      />
    </ConfirmDialog>
  );
}

function FinishDialog({ hook, onClose }: AskedProps) {
  const t = useMessages(messages);
  return (
    <ConfirmDialog
      title={t("finishTitle", { hook: hook.hook_id })}
      text={t("finishText")}
      confirm={t("doFinish")}
      refresh={REFRESH}
      act={() => finishRotation(hookRef(hook))}
      onDone={() => showToast({ tone: "good", title: t("finished", { hook: hook.hook_id }) })}
      onClose={onClose}
    />
  );
}

function DeleteDialog({ hook, onClose }: AskedProps) {
  const t = useMessages(messages);
  const c = useMessages(common);
  return (
    <ConfirmDialog
      title={t("deleteTitle", { hook: hook.hook_id })}
      text={t("deleteText")}
      confirm={c("delete")}
      back={c("keep")}
      refresh={[["hooks"]]}
      act={() => deleteHook(hookRef(hook))}
      onDone={() => {
        showToast({ tone: "good", title: c("isDeleted", { name: hook.hook_id }) });
        navigate(href("/hooks"));
      }}
      onClose={onClose}
    />
  );
}
