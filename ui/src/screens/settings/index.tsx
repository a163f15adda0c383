/** Theme, language, and the API key of this tab. */
import { Monitor, Moon, Sun } from "lucide-react";
import { apiKey } from "../../api/apiKey";
import { api } from "../../api/client";
import { useRead } from "../../api/queries";
import { KeyForm } from "../../app/KeyForm";
import { apiKeyHeader, version, wantsApiKey } from "../../app/pageConfig";
import { type Theme, theme } from "../../app/theme";
import { type LanguageChoice, languageChoice, serverLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { useStore } from "../../lib/store";
import { Button, Segments } from "../../ui/controls";
import { ProblemBox } from "../../ui/feedback";
import { Card, Page } from "../../ui/Page";
import { messages } from "./messages";
import styles from "./Settings.module.css";

// Each in its own language, for a reader who cannot read the current one.
const LANGUAGES = { en: "English", ja: "日本語" } as const;

export default function SettingsScreen() {
  const t = useMessages(messages);
  return (
    <Page title={t("title")}>
      <div className={styles.cards}>
        <Appearance />
        <Key />
        <About />
      </div>
    </Page>
  );
}

function Appearance() {
  const t = useMessages(messages);
  const themes: { value: Theme; label: string; icon: React.ReactNode }[] = [
    { value: "auto", label: t("theme.auto"), icon: <Monitor size={14} aria-hidden /> },
    { value: "light", label: t("theme.light"), icon: <Sun size={14} aria-hidden /> },
    { value: "dark", label: t("theme.dark"), icon: <Moon size={14} aria-hidden /> },
  ];
  const languages: { value: LanguageChoice; label: string }[] = [
    { value: "auto", label: t("languageAuto", { language: LANGUAGES[serverLanguage] }) },
    { value: "en", label: LANGUAGES.en },
    { value: "ja", label: LANGUAGES.ja },
  ];
  return (
    <Card title={t("appearance")}>
      <div className={styles.rows}>
        <div className={styles.row}>
          <span>{t("theme")}</span>
          <Segments label={t("theme")} value={useStore(theme)} options={themes} onChange={theme.set} />
        </div>
        <div className={styles.row}>
          <span>{t("language")}</span>
          <Segments
            label={t("language")}
            value={useStore(languageChoice)}
            options={languages}
            onChange={languageChoice.set}
          />
        </div>
        <p className={styles.soft}>{t("keptHere")}</p>
      </div>
    </Card>
  );
}

function Key() {
  const t = useMessages(messages);
  const key = useStore(apiKey);
  const check = useRead(["key-check", key], (signal) => api.GET("/key", { signal }), { enabled: key !== "" });
  if (!wantsApiKey && !key)
    return (
      <Card title={t("apiKey")}>
        <p className={styles.soft}>{t("keyNotNeeded")}</p>
      </Card>
    );
  return (
    <Card title={t("apiKey")}>
      <div className={styles.rows}>
        {check.error && <ProblemBox problem={check.error} />}
        {key ? (
          <div className={styles.row}>
            <span>{t("keyHere", { end: key.slice(-4), header: apiKeyHeader })}</span>
            <Button onClick={() => apiKey.set("")}>{t("keyForget")}</Button>
          </div>
        ) : (
          <p>{t("keyMissing", { header: apiKeyHeader })}</p>
        )}
        <KeyForm />
        <p className={styles.soft}>{t("keyKept")}</p>
      </div>
    </Card>
  );
}

function About() {
  const t = useMessages(messages);
  const { data } = useRead(["health"], (signal) => api.GET("/health", { signal }));
  return (
    <Card title={t("about")}>
      <dl className={styles.facts}>
        <dt>{t("version")}</dt>
        <dd>{version}</dd>
        <dt>{t("nats")}</dt>
        <dd>{data && (data.nats.ready ? t("natsReady") : t("natsNotReady"))}</dd>
        <dt>{t("index")}</dt>
        <dd>
          {data &&
            (data.index.runs === undefined
              ? t(data.index.ready ? "natsReady" : "natsNotReady")
              : t("indexRuns", { count: data.index.runs }))}
        </dd>
        <dt>{t("document")}</dt>
        <dd>
          <a href="/openapi.json">/openapi.json</a>
        </dd>
      </dl>
    </Card>
  );
}
