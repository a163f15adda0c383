/** The command palette: go to a screen, find a run, change a setting. */

import { Languages, Moon, Search, Sun } from "lucide-react";
import {
  type KeyboardEvent,
  type ReactNode,
  useDeferredValue,
  useEffect,
  useId,
  useRef,
  useState,
} from "react";
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

interface Choice {
  key: string;
  /** Also the text that is searched. */
  name: string;
  shown: ReactNode;
  act: () => void;
}
interface Group {
  heading: string;
  choices: Choice[];
}

/** Whether the letters occur in this order: "dl" finds "Dead letters". */
function matches(name: string, text: string): boolean {
  let at = -1;
  return [...text.toLowerCase().replace(/\s/g, "")].every((letter) => {
    at = name.toLowerCase().indexOf(letter, at + 1);
    return at >= 0;
  });
}

function usePlaces(text: string): Group[] {
  const t = useMessages(messages);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = theme.get() === "dark" || (theme.get() === "auto" && dark);
  const screens = NAVIGATION.map((entry) => ({
    key: entry.name,
    name: t(`nav.${entry.name}`),
    shown: <Named icon={<entry.icon size={15} />} name={t(`nav.${entry.name}`)} hint={`g ${entry.letter}`} />,
    act: () => navigate(href(entry.path)),
  }));
  const themeName = isDark ? t("themeLight") : t("themeDark");
  const actions = [
    {
      key: "theme",
      name: themeName,
      shown: <Named icon={isDark ? <Sun size={15} /> : <Moon size={15} />} name={themeName} />,
      act: () => theme.set(isDark ? "light" : "dark"),
    },
    {
      key: "language",
      name: t("switchLanguage"),
      shown: <Named icon={<Languages size={15} />} name={t("switchLanguage")} />,
      act: () => languageChoice.set(currentLanguage() === "ja" ? "en" : "ja"),
    },
  ];
  const found = (choices: Choice[]) => choices.filter(({ name }) => matches(name, text));
  return [
    { heading: t("groupGo"), choices: found(screens) },
    { heading: t("groupActions"), choices: found(actions) },
  ];
}

function useRunGroup(text: string): Group {
  const t = useMessages(messages);
  const runs = useFoundRuns(useDeferredValue(text));
  const all = t("searchRuns", { text });
  return {
    heading: t("groupRuns"),
    choices: [
      ...runs.map((run) => ({
        key: run.run_id,
        name: run.run_id,
        shown: <FoundRun run={run} />,
        act: () => navigate(href(pathTo("/runs/:id", { id: run.run_id }))),
      })),
      {
        key: "search-all",
        name: all,
        shown: <Named icon={<Search size={15} />} name={all} />,
        act: () => navigate(href("/runs", { q: text })),
      },
    ],
  };
}

function Palette({ onClose }: { onClose: () => void }) {
  const t = useMessages(messages);
  const id = useId();
  const [typed, setTyped] = useState("");
  const [selected, setSelected] = useState(0);
  const text = typed.trim();
  const places = usePlaces(text);
  const runs = useRunGroup(text);
  const groups = (text ? [...places, runs] : places).filter(({ choices }) => choices.length > 0);
  const choices = groups.flatMap((group) => group.choices);
  const at = Math.min(selected, choices.length - 1);
  const current = choices[at];
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelectorAll("[role=option]")[at]?.scrollIntoView?.({ block: "nearest" });
  }, [at]);
  const take = (choice: Choice | undefined) => {
    if (!choice) return;
    onClose();
    choice.act();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setSelected((at + step + choices.length) % choices.length);
    else if (event.key === "Enter" && !event.nativeEvent.isComposing) take(current);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <div className={styles.head}>
        <Search size={16} aria-hidden />
        <input
          className={styles.input}
          role="combobox"
          aria-label={t("paletteLabel")}
          aria-expanded
          aria-autocomplete="list"
          aria-controls={id}
          aria-activedescendant={current && `${id}-${current.key}`}
          autoComplete="off"
          spellCheck={false}
          value={typed}
          placeholder={t("palettePlaceholder")}
          onChange={({ target }) => {
            setTyped(target.value);
            setSelected(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div ref={list} id={id} role="listbox" aria-label={t("paletteLabel")} className={styles.list}>
        {groups.map((group) => (
          <div key={group.heading} role="group" aria-label={group.heading}>
            <div className={styles.heading} aria-hidden>
              {group.heading}
            </div>
            {group.choices.map((choice) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the input handles the keys.
              <div
                key={choice.key}
                id={`${id}-${choice.key}`}
                role="option"
                aria-selected={choice === current}
                className={styles.item}
                onPointerMove={() => setSelected(choices.indexOf(choice))}
                onClick={() => take(choice)}
              >
                {choice.shown}
              </div>
            ))}
          </div>
        ))}
      </div>
    </>
  );
}

function Named({ icon, name, hint }: { icon: ReactNode; name: string; hint?: string }) {
  return (
    <>
      {icon}
      {name}
      {hint && <span className={styles.hint}>{hint}</span>}
    </>
  );
}

function FoundRun({ run }: { run: Schemas["RunItem"] }) {
  return (
    <>
      <StatusBadge status={run.status} />
      <span className={styles.name}>
        <UserText text={run.flow_name} />
      </span>
      <code>{run.run_id.slice(0, 8)}</code>
      <span className={styles.hint}>
        <Ago at={run.updated_at} />
      </span>
    </>
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
