/** Views: named filters and orders, built in or saved in this browser. */

import { Bookmark, Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { href, navigate, usePlace } from "../../app/router";
import { useMessages } from "../../i18n/messages";
import { storedValue, useStore } from "../../lib/store";
import { Button, Field, Input } from "../../ui/controls";
import { Dialog } from "../../ui/Dialog";
import { Menu, MenuItem, MenuLabel, MenuLine } from "../../ui/menus";
import { UserText } from "../../ui/UserText";
import { viewOf } from "./filters";
import { messages } from "./messages";

interface View {
  name: string;
  query: string;
}

const BUILT_IN = {
  all: "",
  active: "status=PENDING&status=RUNNING&status=WAITING_HUMAN&status=WAITING&status=CANCELLING",
  failed: "status=FAILED&since=24h",
  slow: "sort=duration&order=desc",
} as const;

const isView = (value: unknown): value is View =>
  typeof value === "object" && value !== null && "name" in value && "query" in value;
const isViews = (value: unknown): value is readonly View[] => Array.isArray(value) && value.every(isView);
const savedViews = storedValue<readonly View[]>(() => localStorage, "pyoco.run-views", [], isViews);

const open = (query: string) => navigate(href("/runs", new URLSearchParams(query)));

export function ViewsMenu() {
  const t = useMessages(messages);
  const saved = useStore(savedViews);
  const [naming, setNaming] = useState(false);
  const current = viewOf(usePlace().query);
  const kept = saved.find((view) => view.query === current);
  const names = Object.keys(BUILT_IN) as (keyof typeof BUILT_IN)[];
  return (
    <>
      <Menu
        align="end"
        trigger={
          <Button>
            <Bookmark size={14} aria-hidden />
            {kept ? <UserText text={kept.name} /> : t("views")}
          </Button>
        }
      >
        {names.map((name) => (
          <MenuItem key={name} onSelect={() => open(BUILT_IN[name])}>
            {t(`view.${name}`)}
          </MenuItem>
        ))}
        {saved.length > 0 && (
          <>
            <MenuLine />
            <MenuLabel>{t("savedViews")}</MenuLabel>
          </>
        )}
        {saved.map((view) => (
          <MenuItem key={view.name} onSelect={() => open(view.query)}>
            <UserText text={view.name} />
          </MenuItem>
        ))}
        <MenuLine />
        {kept ? (
          <MenuItem danger onSelect={() => savedViews.set(saved.filter((view) => view !== kept))}>
            <Trash2 size={14} aria-hidden />
            {t("removeView", { name: kept.name })}
          </MenuItem>
        ) : (
          <MenuItem onSelect={() => setNaming(true)} disabled={current === ""}>
            {t("saveView")}
          </MenuItem>
        )}
      </Menu>
      <SaveDialog open={naming} onClose={() => setNaming(false)} query={current} />
    </>
  );
}

function SaveDialog({ open, onClose, query }: { open: boolean; onClose: () => void; query: string }) {
  const t = useMessages(messages);
  const [name, setName] = useState("");
  const save = (event: FormEvent) => {
    event.preventDefault();
    const others = savedViews.get().filter((view) => view.name !== name.trim());
    savedViews.set([...others, { name: name.trim(), query }]);
    setName("");
    onClose();
  };
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={t("saveViewTitle")}
      width={420}
      actions={
        <Button kind="primary" type="submit" form="save-view" disabled={!name.trim()}>
          {t("save")}
        </Button>
      }
    >
      <form id="save-view" onSubmit={save}>
        <Field label={t("viewName")} hint={t("viewNameHint")}>
          {(wired) => (
            <Input {...wired} value={name} maxLength={60} onChange={(event) => setName(event.target.value)} />
          )}
        </Field>
      </form>
    </Dialog>
  );
}
