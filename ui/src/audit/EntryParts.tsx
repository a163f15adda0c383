/** The parts of an audit entry, as the list and the run page show them. */
import { href, pathTo } from "../app/router";
import { useLanguage } from "../i18n/language";
import { listText, useMessages } from "../i18n/messages";
import { fileSize } from "../i18n/size";
import { exactTime, interval } from "../i18n/time";
import { visible } from "../lib/visible";
import { UserText } from "../ui/UserText";
import styles from "./Audit.module.css";
import { actionText, isDetail } from "./actions";
import { type Entry, shortId, targetHref } from "./auditApi";
import { messages } from "./messages";

export function useActionText(): (action: string) => string {
  const t = useMessages(messages);
  return (action) => {
    const text = actionText(action);
    return text ? t(text) : action;
  };
}

/** Who it was: the name of a key, else its id; without a key, the address. */
export function useActorText(): (entry: Entry) => string {
  const t = useMessages(messages);
  return ({ actor }) => actor.name || actor.api_key_id || t("anonymousAt", { ip: actor.ip ?? "?" });
}

/** What finds the other entries of this actor. */
export const actorWord = ({ actor }: Entry): string =>
  actor.api_key_id ?? actor.name ?? actor.ip ?? "anonymous";

export function Who({ entry }: { entry: Entry }) {
  const t = useMessages(messages);
  const text = useActorText();
  const { on_behalf_of, api_key_id, ip, user_agent } = entry.actor;
  const title = [api_key_id, ip, user_agent].filter(Boolean).join(" · ");
  return (
    <span title={title ? visible(title) : undefined}>
      <UserText text={text(entry)} />
      {on_behalf_of && <span className={styles.soft}> {t("forWhom", { who: on_behalf_of })}</span>}
    </span>
  );
}

export function Target({ entry }: { entry: Entry }) {
  const { name, id } = entry.target;
  const link = targetHref(entry);
  const shown = (
    <>
      {name && <UserText text={name} />}
      {id && id !== name && <code>{visible(shortId(id))}</code>}
    </>
  );
  const title = id ? visible(id) : undefined;
  return link ? (
    <a className={styles.target} href={link} title={title}>
      {shown}
    </a>
  ) : (
    <span className={styles.target} title={title}>
      {shown}
    </span>
  );
}

/** Quiet while everything went well. */
export function Outcome({ entry }: { entry: Entry }) {
  const t = useMessages(messages);
  const word = entry.outcome;
  const known = word === "accepted" || word === "refused" || word === "failed";
  return (
    <span className={styles[word] ?? undefined} title={entry.err_id ?? undefined}>
      {known ? t(`outcome.${word}`) : word}
      {word !== "accepted" && <span className={styles.soft}> {t("status", { status: entry.status })}</span>}
    </span>
  );
}

export function EntryDetails({ entry }: { entry: Entry }) {
  const t = useMessages(messages);
  return (
    <span className={styles.details}>
      {Object.entries(entry.details).map(([name, value]) => {
        const label = isDetail(name) ? t(`detail.${name}`) : name;
        // A flag that is set says it all by its name.
        if (value === true) return <span key={name}>{label}</span>;
        return (
          <span key={name}>
            <span className={styles.soft}>{label}:</span> <Value name={name} value={value} />
          </span>
        );
      })}
    </span>
  );
}

/** Of a proposal. */
const DECISIONS = ["approved", "edited", "rejected"] as const;
/** What became of a schedule that somebody has triggered. */
const STARTS = ["started", "skipped", "buffered", "failed"] as const;

function Value({ name, value }: { name: string; value: Entry["details"][string] }) {
  const t = useMessages(messages);
  const language = useLanguage();
  if (name === "run_id")
    return <a href={href(pathTo("/runs/:id", { id: String(value) }))}>{String(value).slice(0, 8)}</a>;
  if (name === "deadline_at" && typeof value === "number") return exactTime(value, language);
  if (name === "size_bytes" && typeof value === "number") return fileSize(value);
  if (name.endsWith("_sec") && typeof value === "number") return interval(value);
  const started = name === "outcome" ? STARTS.find((each) => each === value) : undefined;
  if (started) return t(`start.${started}`);
  const decision = name === "decision" ? DECISIONS.find((each) => each === value) : undefined;
  if (decision) return t(`decision.${decision}`);
  if (value === false) return t("no");
  return <UserText text={Array.isArray(value) ? listText(value, language) : String(value)} />;
}
