/** Where a page is: a link for each level above it. */
import { ChevronRight } from "lucide-react";
import { useMessages } from "../i18n/messages";
import styles from "./Breadcrumbs.module.css";
import { messages } from "./messages";
import { UserText } from "./UserText";

export interface Crumb {
  text: string;
  /** None: the page itself. */
  href?: string;
}

export function Breadcrumbs({ crumbs }: { crumbs: readonly Crumb[] }) {
  const t = useMessages(messages);
  return (
    <nav aria-label={t("breadcrumbs")}>
      <ol className={styles.crumbs}>
        {crumbs.map(({ text, href }, at) => (
          <li key={`${text} ${href}`}>
            {at > 0 && <ChevronRight size={12} aria-hidden />}
            {href ? (
              <a href={href}>
                <UserText text={text} />
              </a>
            ) : (
              <span aria-current="page">
                <UserText text={text} />
              </span>
            )}
          </li>
        ))}
      </ol>
    </nav>
  );
}
