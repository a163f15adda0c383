import { joined } from "../../ui/controls";
import styles from "./Api.module.css";

/** The method of a request, as a label. */
export function Method({ name }: { name: string }) {
  return <span className={joined(styles.method, styles[name.toLowerCase()])}>{name}</span>;
}
