/** A small chart of one value over time, with its latest value and its range in words. */
import { useLanguage } from "../../i18n/language";
import { useMessages } from "../../i18n/messages";
import styles from "./Metrics.module.css";
import { messages } from "./messages";

export interface Point {
  at: number;
  value: number;
}

interface TrendProps {
  label: string;
  /** What it says to a reader who does not see it. */
  description: string;
  points: readonly Point[];
  /** The times at its left and right edge. */
  from: number;
  to: number;
  /** The least value of its top edge. */
  least?: number;
  /** Drawn as bars, each this wide in seconds; else as a line. */
  barSec?: number;
}

const WIDTH = 300;
const HEIGHT = 64;

export function Trend({ label, description, points, from, to, least = 1, barSec }: TrendProps) {
  const t = useMessages(messages);
  const language = useLanguage();
  const top = Math.max(least, ...points.map(({ value }) => value));
  const x = (at: number) => ((at - from) / Math.max(1, to - from)) * WIDTH;
  const y = (value: number) => HEIGHT - (value / top) * HEIGHT;
  const line = points.map(({ at, value }) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  return (
    <figure className={styles.trend}>
      <figcaption>
        <span>{label}</span>
        <span className={styles.top}>
          {t("top", { count: top.toLocaleString(language, { maximumFractionDigits: 1 }) })}
        </span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={description}>
        {barSec
          ? points.map(({ at, value }) => (
              <rect
                key={at}
                className={styles.bar}
                x={x(at)}
                width={Math.max(1, x(at + barSec) - x(at) - 1)}
                y={y(value)}
                height={HEIGHT - y(value)}
              />
            ))
          : line.length > 0 && (
              <>
                <polygon
                  className={styles.area}
                  points={`${x(points[0]?.at ?? from)},${HEIGHT} ${line.join(" ")} ${x(points.at(-1)?.at ?? to)},${HEIGHT}`}
                />
                <polyline className={styles.line} points={line.join(" ")} />
                {line.length === 1 && <path className={styles.point} d={`M${line[0]}h0.01`} />}
              </>
            )}
      </svg>
    </figure>
  );
}
