/** Counts as horizontal bars. */
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import { toneOf } from "../../triggers/Outcome";
import { joined } from "../../ui/controls";
import styles from "./Events.module.css";
import { messages } from "./messages";

export interface Bar {
  name: string;
  label: string;
  count: number;
  /** Whose colour it has; default: the accent. */
  tone?: string;
}

/** One bar each, relative to the largest. */
export function Bars({ bars, label }: { bars: readonly Bar[]; label: string }) {
  const language = useLanguage();
  const largest = Math.max(1, ...bars.map(({ count }) => count));
  return (
    <ul className={styles.bars} aria-label={label}>
      {bars.map(({ name, label, count, tone }) => (
        <li
          key={name}
          className={joined(styles.bar, tone && toneOf(tone), count === 0 && styles.none)}
          data-count={name}
        >
          <span title={name}>{label}</span>
          <strong>{count.toLocaleString(language)}</strong>
          <span className={styles.track} aria-hidden>
            <span style={{ width: `${(count / largest) * 100}%` }} />
          </span>
        </li>
      ))}
    </ul>
  );
}

/** All in one bar, for their shares. */
export function Shares({ bars }: { bars: readonly Bar[] }) {
  const t = useMessages(messages);
  const total = bars.reduce((sum, { count }) => sum + count, 0);
  if (total === 0) return null;
  return (
    <div className={styles.stack} aria-hidden>
      {bars.map(({ name, label, count, tone }) => (
        <span
          key={name}
          className={tone && toneOf(tone)}
          style={{ width: `${(count / total) * 100}%` }}
          title={`${label}: ${t("share", { count, total })}`}
        />
      ))}
    </div>
  );
}
