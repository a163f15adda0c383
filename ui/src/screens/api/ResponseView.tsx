/** What the gateway returned. */
import { useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { duration } from "../../i18n/time";
import { formattedJson } from "../../lib/exactJson";
import { visible } from "../../lib/visible";
import { joined } from "../../ui/controls";
import styles from "./Api.module.css";
import { Code } from "./Code";
import { messages } from "./messages";
import { isText, MOST, type Received } from "./useSending";

export function ResponseView({ response, sending }: { response: Received | null; sending: boolean }) {
  const t = useMessages(messages);
  return (
    <section className={styles.response} aria-label={t("response")}>
      <p role="status" className={joined(styles.status, response && toneOf(response))}>
        {statusText(response, sending, t)}
      </p>
      {response && response.status > 0 && (
        <>
          <details>
            <summary>{t("headers")}</summary>
            <pre className={styles.code}>
              {response.headers.map(([name, value]) => `${name}: ${value}`).join("\n")}
            </pre>
          </details>
          <Body response={response} sending={sending} />
        </>
      )}
    </section>
  );
}

type Translate = ReturnType<typeof useMessages<typeof messages.en>>;

function statusText(response: Received | null, sending: boolean, t: Translate): string {
  if (!response) return t("sending");
  if (response.status === 0) return t("failed", { why: response.problem ?? "" });
  const status = `${response.status} ${response.statusText}`.trim();
  if (sending) return t("streaming", { status });
  return t("took", { status, time: duration(response.seconds), size: fileSize(response.bytes) });
}

const toneOf = ({ status }: Received): string | undefined =>
  status >= 200 && status < 400 ? styles.good : styles.bad;

function Body({ response, sending }: { response: Received; sending: boolean }) {
  const t = useMessages(messages);
  if (!isText(response.type))
    return response.bytes > 0 ? (
      <p className={styles.soft}>
        {t("notShown", { size: fileSize(response.bytes), type: response.type || "?" })}
      </p>
    ) : null;
  if (!response.text) return null;
  const isWhole = !sending && response.text.length < MOST;
  return (
    <>
      <Code label={t("response")} text={visible(isWhole ? readable(response) : response.text)} />
      {response.text.length >= MOST && <p className={styles.soft}>{t("cut", { size: fileSize(MOST) })}</p>}
    </>
  );
}

function readable({ text, type }: Received): string {
  if (!type.includes("json")) return text;
  try {
    JSON.parse(text);
    return formattedJson(text);
  } catch {
    return text;
  }
}
