/** The frame of every screen: navigation, search, and the health of the gateway. */
import { Menu as MenuIcon, Search } from "lucide-react";
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import { useLanguage } from "../i18n/language";
import { useMessages } from "../i18n/messages";
import { relativeTime } from "../i18n/time";
import { useNow } from "../lib/clock";
import { IconButton, joined, Kbd } from "../ui/controls";
import { Dialog } from "../ui/Dialog";
import { useHealth } from "./health";
import { keyNames } from "./keyNames";
import { messages } from "./messages";
import { useOpenQuestionCount } from "./openQuestionCount";
import { version } from "./pageConfig";
import { href, usePlace } from "./router";
import styles from "./Shell.module.css";
import { findScreen, KEYLESS, NAVIGATION, type NavEntry } from "./screens";

// The slowest poll is every ten seconds, and a response takes a moment.
const CURRENT_SEC = 12;

interface ShellProps {
  onSearch: () => void;
  children: ReactNode;
}

export function Shell({ onSearch, children }: ShellProps) {
  const t = useMessages(messages);
  const { path } = usePlace();
  const [drawer, setDrawer] = useState(false);
  const main = useRef<HTMLElement>(null);
  const arrived = useRef(path);
  // Before the effects of the screen, which may restore its scroll position.
  useLayoutEffect(() => {
    if (arrived.current === path) return;
    arrived.current = path;
    // Announce the new screen to screen readers.
    main.current?.focus({ preventScroll: true });
    main.current?.scrollTo(0, 0);
    setDrawer(false);
  }, [path]);
  const search = () => {
    setDrawer(false);
    onSearch();
  };
  return (
    <div className={styles.shell}>
      <button type="button" className={styles.skip} onClick={() => main.current?.focus()}>
        {t("skip")}
      </button>
      <header className={styles.bar}>
        <IconButton
          label={t("openNavigation")}
          icon={<MenuIcon size={18} />}
          onClick={() => setDrawer(true)}
        />
        <Brand />
        <HealthLine />
        <IconButton label={t("openPalette")} icon={<Search size={17} />} onClick={search} />
      </header>
      <Side onSearch={search} />
      <main ref={main} className={styles.main} tabIndex={-1}>
        {children}
      </main>
      <Dialog
        open={drawer}
        onClose={() => setDrawer(false)}
        title={t("navigation")}
        bare
        className={styles.drawer}
      >
        <Side onSearch={search} />
      </Dialog>
    </div>
  );
}

function Brand() {
  return (
    <a className={styles.brand} href={href("/")}>
      <img src={`${import.meta.env.BASE_URL}icon.svg`} width={24} height={24} alt="" />
      Pyoco
    </a>
  );
}

function Side({ onSearch }: { onSearch: () => void }) {
  const t = useMessages(messages);
  const { path } = usePlace();
  const current = findScreen(path)?.screen.nav;
  const last = NAVIGATION.filter(({ name }) => KEYLESS.includes(name));
  const first = NAVIGATION.filter(({ name }) => !KEYLESS.includes(name));
  const link = (entry: NavEntry) => (
    <NavLink key={entry.name} entry={entry} current={entry.name === current} />
  );
  return (
    <nav className={styles.side} aria-label={t("navigation")}>
      <Brand />
      <button type="button" className={styles.search} onClick={onSearch}>
        <Search size={14} aria-hidden />
        <span>{t("search")}</span>
        <Kbd>{keyNames("mod+K").join(" ")}</Kbd>
      </button>
      <div className={styles.nav}>{first.map(link)}</div>
      <div className={styles.last}>
        {last.map(link)}
        <HealthLine />
      </div>
    </nav>
  );
}

function NavLink({ entry, current }: { entry: NavEntry; current: boolean }) {
  const t = useMessages(messages);
  const waiting = useOpenQuestionCount();
  return (
    <a className={styles.link} href={href(entry.path)} aria-current={current ? "page" : undefined}>
      <entry.icon size={16} aria-hidden />
      {t(`nav.${entry.name}`)}
      {entry.name === "inbox" && waiting > 0 && <span className={styles.badge}>{waiting}</span>}
    </a>
  );
}

/** The state of the connection, and the age of what is on the screen. */
function HealthLine() {
  const t = useMessages(messages);
  const language = useLanguage();
  const now = useNow();
  const { word, knownAt } = useHealth();
  const age = knownAt === null ? null : relativeTime(knownAt, now, language);
  const isOld = word === "unreachable" || (knownAt !== null && now - knownAt > CURRENT_SEC);
  return (
    <div className={joined(styles.health, word && word !== "ok" && styles.bad)} data-health={word}>
      <p role="status">
        <span className={styles.dot} aria-hidden />
        {word && t(`health.${word}`)}
        {word === "ok" && version && <span className={styles.version}>{version}</span>}
      </p>
      {/* Not announced: it changes every second. */}
      {knownAt !== null && (
        <p className={styles.age}>{isOld ? age && t("screenAge", { age }) : t("screenCurrent")}</p>
      )}
    </div>
  );
}
