/** The history of a question. */
import {
  Ban,
  BellRing,
  ChevronsUp,
  CircleCheck,
  Clock,
  type LucideIcon,
  MessageCircleQuestion,
  ShieldX,
  TimerReset,
  Undo2,
  Users,
} from "lucide-react";
import { useLanguage } from "../../i18n/language";
import { listText, useMessages } from "../../i18n/messages";
import { exactTime } from "../../i18n/time";
import { Ago } from "../../ui/time";
import { messages } from "./messages";
import styles from "./Wait.module.css";
import { nameOf, type Wait } from "./wait";

type WaitEvent = Wait["events"][number];

const ICONS: Record<WaitEvent["kind"], LucideIcon> = {
  opened: MessageCircleQuestion,
  answered: CircleCheck,
  refused: ShieldX,
  expired: Clock,
  cancelled: Ban,
  withdrawn: Undo2,
  extended: TimerReset,
  reassigned: Users,
  voted: CircleCheck,
  reminded: BellRing,
  escalated: ChevronsUp,
  reused: CircleCheck,
};

const WORDS = [
  "already_decided",
  "already_voted",
  "approval_changed",
  "expired",
  "invalid_answer",
  "invalid_state",
  "message_changed",
  "not_assigned",
  "proposal_changed",
  "question_changed",
  "schema_changed",
  "self_approval",
] as const;

/** The reason of an event as a key of the messages, unless it is free text. */
export const reasonKey = (why: string | null | undefined) => WORDS.find((each) => each === why);

export function WaitHistory({ events }: { events: readonly WaitEvent[] }) {
  const t = useMessages(messages);
  if (events.length === 0) return null;
  return (
    <section className={styles.history} aria-label={t("history")}>
      <h3>{t("history")}</h3>
      <ol>
        {events.map((event) => (
          <Entry key={event.event_id} event={event} />
        ))}
      </ol>
    </section>
  );
}

function Entry({ event }: { event: WaitEvent }) {
  const t = useMessages(messages);
  const Icon = ICONS[event.kind];
  const who = nameOf(event.actor);
  const word = reasonKey(event.why);
  const from = [event.actor?.ip, event.actor?.user_agent].filter((each) => each && each !== who);
  return (
    <li>
      <Icon size={14} aria-hidden />
      <div>
        <p>
          {event.decision
            ? t("withDecision", {
                event: t(`event.${event.kind}`),
                decision: t(`decision.${event.decision}`),
              })
            : t(`event.${event.kind}`)}
          {who && ` ${t("by", { who })}`} <Ago at={event.at} />
        </p>
        {event.actor?.on_behalf_of && (
          <p className={styles.why}>{t("onBehalfOf", { who: event.actor.on_behalf_of })}</p>
        )}
        <Change event={event} />
        {event.why && <p className={styles.why}>{word ? t(`why.${word}`) : event.why}</p>}
        {from.length > 0 && <p className={styles.agent}>{from.join(" · ")}</p>}
      </div>
    </li>
  );
}

/** What an open question has since this event. */
function Change({ event }: { event: WaitEvent }) {
  const t = useMessages(messages);
  const language = useLanguage();
  if (event.deadline_at)
    return <p className={styles.why}>{t("newDeadline", { time: exactTime(event.deadline_at, language) })}</p>;
  if (event.assignees)
    return (
      <p className={styles.why}>
        {event.assignees.length > 0 ? t("for", { who: listText(event.assignees) }) : t("forEverybody")}
      </p>
    );
  return null;
}
