/** The text format of Prometheus, as `GET /metrics` returns it. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:\\.|[^"\\])*)"/g;
const ESCAPED: Record<string, string> = { n: "\n", "\\": "\\", '"': '"' };

export function parseExposition(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = "", value = ""] = LINE.exec(line) ?? [];
    return name ? [{ name, labels: labelsIn(labels), value: numberIn(value) }] : [];
  });
}

const labelsIn = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(LABEL)].map(([, name = "", value = ""]) => [
      name,
      value.replace(/\\(.)/g, (_, sign: string) => ESCAPED[sign] ?? sign),
    ]),
  );

const numberIn = (text: string): number =>
  text === "+Inf" ? Number.POSITIVE_INFINITY : text === "-Inf" ? Number.NEGATIVE_INFINITY : Number(text);

/** The samples of one scrape by name. */
export class Scrape {
  private readonly byName = new Map<string, Sample[]>();

  constructor(
    /** When it was read, in unix seconds. */
    readonly at: number,
    samples: readonly Sample[],
  ) {
    for (const sample of samples) {
      const known = this.byName.get(sample.name);
      if (known) known.push(sample);
      else this.byName.set(sample.name, [sample]);
    }
  }

  all(name: string): readonly Sample[] {
    return this.byName.get(name) ?? [];
  }

  /** The sum of the samples with these labels; null if this view has none. */
  sum(name: string, labels: Record<string, string> = {}): number | null {
    const found = this.all(name).filter((sample) => has(sample, labels));
    return found.length > 0 ? found.reduce((sum, { value }) => sum + value, 0) : null;
  }

  /** The values of a label, in the order of the page. */
  values(name: string, label: string): string[] {
    return [...new Set(this.all(name).map(({ labels }) => labels[label] ?? ""))];
  }

  /** A histogram, added up over everything but these labels. */
  histogram(name: string, labels: Record<string, string> = {}): Histogram {
    const counts = new Map<number, number>();
    for (const sample of this.all(`${name}_bucket`)) {
      if (!has(sample, labels)) continue;
      const bound = numberIn(sample.labels.le ?? "");
      counts.set(bound, (counts.get(bound) ?? 0) + sample.value);
    }
    const largest = this.all(largestOf(name)).filter((sample) => has(sample, labels));
    return new Histogram(
      [...counts].sort(([a], [b]) => a - b),
      largest.length > 0 ? Math.max(...largest.map(({ value }) => value)) : null,
    );
  }
}

/** The gauge of the largest value of a histogram. */
const largestOf = (histogram: string): string => histogram.replace(/_seconds$/, "_max_seconds");

const has = (sample: Sample, labels: Record<string, string>): boolean =>
  Object.entries(labels).every(([name, value]) => sample.labels[name] === value);

/** Cumulative counts by upper bound. */
export class Histogram {
  constructor(
    private readonly buckets: readonly (readonly [number, number])[],
    /** The largest value; null: it is not known. */
    private readonly largest: number | null = null,
  ) {}

  get count(): number {
    return this.buckets.at(-1)?.[1] ?? 0;
  }

  /**
   * As `histogram_quantile` of Prometheus, interpolated in its bucket, but never above the largest value; null
   * without values.
   */
  quantile(share: number): number | null {
    const rank = share * this.count;
    if (this.count === 0) return null;
    let [lower, below] = [0, 0];
    for (const [bound, count] of this.buckets) {
      if (count >= rank) {
        const upper = Math.max(lower, Math.min(bound, this.largest ?? bound));
        // Beyond the last bound it is only known to be larger.
        if (!Number.isFinite(upper)) return lower;
        return count === below ? upper : lower + ((upper - lower) * (rank - below)) / (count - below);
      }
      [lower, below] = [bound, count];
    }
    return lower;
  }
}
