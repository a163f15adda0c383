/** The command palette: go to a screen, find a run, change a setting. */

import { Command } from "cmdk";
import { Languages, Moon, Search, Sun } from "lucide-react";
import { type ReactNode, useDeferredValue, useState } from "react";
import { api, type Schemas } from "../api/client";
import { useRead } from "../api/queries";
import { currentLanguage, languageChoice } from "../i18n/language";
import { useMessages } from "../i18n/messages";
import { Dialog } from "../ui/Dialog";
import { StatusBadge } from "../ui/status";
import { Ago } from "../ui/time";
import { UserText } from "../ui/UserText";
import styles from "./CommandPalette.module.css";
import { messages } from "./messages";
import { href, navigate, pathTo } from "./router";
import { NAVIGATION } from "./screens";
import { theme } from "./theme";

interface PaletteProps {
  open: boolean;
  onClose: () => void;
}

export function CommandPalette({ open, onClose }: PaletteProps) {
  const t = useMessages(messages);
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={t("paletteLabel")}
      bare
      width={600}
      className={styles.palette}
    >
      <Palette onClose={onClose} />
    </Dialog>
  );
}

function Palette({ onClose }: { onClose: () => void }) {
  const t = useMessages(messages);
  const [text, setText] = useState("");
  const runs = useFoundRuns(useDeferredValue(text.trim()));
  const act = (action: () => void) => () => {
    onClose();
    action();
  };
  const goTo = (target: string) => act(() => navigate(target));
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = theme.get() === "dark" || (theme.get() === "auto" && dark);
  return (
    <Command label={t("paletteLabel")} loop>
      <div className={styles.head}>
        <Search size={16} aria-hidden />
        <Command.Input
          className={styles.input}
          value={text}
          onValueChange={setText}
          placeholder={t("palettePlaceholder")}
        />
      </div>
      <Command.List className={styles.list}>
        <Command.Group heading={t("groupGo")}>
          {NAVIGATION.map((entry) => (
            <Item
              key={entry.name}
              icon={<entry.icon size={15} />}
              hint={`g ${entry.letter}`}
              onSelect={goTo(href(entry.path))}
            >
              {t(`nav.${entry.name}`)}
            </Item>
          ))}
        </Command.Group>
        <Command.Group heading={t("groupActions")}>
          <Item
            icon={isDark ? <Sun size={15} /> : <Moon size={15} />}
            onSelect={act(() => theme.set(isDark ? "light" : "dark"))}
          >
            {isDark ? t("themeLight") : t("themeDark")}
          </Item>
          <Item
            icon={<Languages size={15} />}
            onSelect={act(() => languageChoice.set(currentLanguage() === "ja" ? "en" : "ja"))}
          >
            {t("switchLanguage")}
          </Item>
        </Command.Group>
        {text.trim() && (
          <Command.Group heading={t("groupRuns")} forceMount>
            {runs.map((run) => (
              <Command.Item
                key={run.run_id}
                value={run.run_id}
                className={styles.item}
                forceMount
                onSelect={goTo(href(pathTo("/runs/:id", { id: run.run_id })))}
              >
                <StatusBadge status={run.status} />
                <span className={styles.name}>
                  <UserText text={run.flow_name} />
                </span>
                <code>{run.run_id.slice(0, 8)}</code>
                <span className={styles.hint}>
                  <Ago at={run.updated_at} />
                </span>
              </Command.Item>
            ))}
            <Command.Item
              value="search-all"
              forceMount
              className={styles.item}
              onSelect={goTo(href("/runs", { q: text.trim() }))}
            >
              <Search size={15} aria-hidden />
              {t("searchRuns", { text: text.trim() })}
            </Command.Item>
          </Command.Group>
        )}
      </Command.List>
    </Command>
  );
}

interface ItemProps {
  icon: ReactNode;
  hint?: string;
  onSelect: () => void;
  children: string;
}

function Item({ icon, hint, onSelect, children }: ItemProps) {
  return (
    <Command.Item className={styles.item} onSelect={onSelect} value={children}>
      {icon}
      {children}
      {hint && <span className={styles.hint}>{hint}</span>}
    </Command.Item>
  );
}

const RUN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const SHOWN = 6;

/** Runs that contain the text, or the run with this id. */
function useFoundRuns(text: string): readonly Schemas["RunItem"][] {
  const isId = RUN_ID.test(text);
  const byId = useRead(
    ["run", text],
    (signal) => api.GET("/runs/{run_id}", { params: { path: { run_id: text.toLowerCase() } }, signal }),
    { enabled: isId },
  );
  const byText = useRead(
    ["runs", "palette", text],
    (signal) => api.GET("/runs", { params: { query: { q: text, limit: SHOWN } }, signal }),
    { enabled: text.length > 2 && !isId, keep: true },
  );
  if (isId) return byId.data ? [byId.data as unknown as Schemas["RunItem"]] : [];
  return text.length > 2 && Array.isArray(byText.data) ? (byText.data as Schemas["RunItem"][]) : [];
}
