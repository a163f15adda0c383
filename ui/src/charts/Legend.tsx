/** The values of a chart: of the interval that is pointed at, or of the whole time. */
import { joined } from "../ui/controls";
import { toneClass } from "../ui/status";
import { ENDS, type End, type EndCounts, STATUS_OF } from "./ends";
import styles from "./Legend.module.css";
import type { Line } from "./TimeChart";

export interface LegendEntry {
  name: string;
  value: string;
  /** What its mark looks like. */
  mark: End | Line["kind"];
  href?: string;
}

export function Legend({ time, entries }: { time: string; entries: readonly LegendEntry[] }) {
  return (
    <p className={styles.legend}>
      <span className={styles.time}>{time}</span>
      {entries.map(({ name, value, mark, href }) => {
        const content = (
          <>
            {name} <strong>{value}</strong>
          </>
        );
        const className = joined(
          styles.entry,
          styles[mark],
          mark in STATUS_OF && toneClass(STATUS_OF[mark as End]),
        );
        return href ? (
          <a key={name} href={href} className={className}>
            {content}
          </a>
        ) : (
          <span key={name} className={className}>
            {content}
          </span>
        );
      })}
    </p>
  );
}

/** The entries of ended runs. */
export const endEntries = (
  counts: EndCounts,
  name: (end: End) => string,
  value: (count: number) => string,
  href: (end: End) => string,
): LegendEntry[] =>
  ENDS.map((end) => ({ name: name(end), value: value(counts[end]), mark: end, href: href(end) }));
