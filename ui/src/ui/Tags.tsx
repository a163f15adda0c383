import styles from "./Tags.module.css";

/** Words that people gave to something, such as the tags of a worker. */
export function Tags({ tags }: { tags: readonly string[] }) {
  return tags.map((tag) => (
    <span key={tag} className={styles.tag}>
      {tag}
    </span>
  ));
}
