import { href } from "../app/router";
import { visible } from "../lib/visible";
import styles from "./Tags.module.css";
import { UserText } from "./UserText";

/** Short marks, such as the tags of a worker. */
export function Tags({ tags }: { tags: readonly string[] }) {
  if (tags.length === 0) return null;
  return (
    <span className={styles.tags}>
      {tags.map((tag) => (
        <span key={tag} className={styles.tag} title={visible(tag)}>
          <UserText text={tag} />
        </span>
      ))}
    </span>
  );
}

interface LabelsProps {
  labels: readonly string[];
  /** Where a label leads; usually to the runs that have it. */
  to?: (label: string) => string;
}

const toRuns = (label: string) => href("/runs", { tag: label });

/** Labels and tags of runs, or of what starts them: each leads to everything that has it. */
export function Labels({ labels, to = toRuns }: LabelsProps) {
  if (labels.length === 0) return null;
  return (
    <span className={styles.tags}>
      {labels.map((label) => (
        <a key={label} className={styles.tag} href={to(label)} title={visible(label)} data-label={label}>
          <UserText text={label} />
        </a>
      ))}
    </span>
  );
}
