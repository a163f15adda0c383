/** The remaining time of a question, coloured by urgency. */
import { Clock } from "lucide-react";
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { duration, exactTime } from "../../i18n/time";
import { useNow } from "../../lib/clock";
import { joined } from "../../ui/controls";
import styles from "./Deadline.module.css";
import { messages } from "./messages";

const SOON_SEC = 3_600;
const URGENT_SEC = 300;

export function Deadline({ at }: { at: number }) {
  const t = useMessages(messages);
  const language = useLanguage();
  const left = Math.ceil(at - useNow());
  const tone = left <= URGENT_SEC ? styles.urgent : left <= SOON_SEC ? styles.soon : undefined;
  return (
    <time
      className={joined(styles.deadline, tone)}
      dateTime={new Date(at * 1000).toISOString()}
      title={exactTime(at, language)}
    >
      <Clock size={12} aria-hidden />
      {left > 0 ? t("left", { time: duration(left) }) : t("over")}
    </time>
  );
}
