import { visible } from "../lib/visible";
import styles from "./Tags.module.css";
import { UserText } from "./UserText";

/** Short labels, such as the tags of a worker. */
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
