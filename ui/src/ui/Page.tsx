/** The frame of every screen: heading (also the title of the tab), actions and content. */

import { type ReactNode, useEffect } from "react";
import { visible } from "../lib/visible";
import { joined } from "./controls";
import styles from "./Page.module.css";
import { UserText } from "./UserText";

interface PageProps {
  title: string;
  /** Above the heading, such as breadcrumbs. */
  above?: ReactNode;
  /** Next to the heading, such as a count. */
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** As high as the window: a part inside scrolls, not the page. */
  full?: boolean;
}

export function Page({ title, above, note, actions, children, full }: PageProps) {
  useEffect(() => {
    document.title = `${visible(title)} · Pyoco`;
  }, [title]);
  return (
    <div className={joined(styles.page, full && styles.full)}>
      {above}
      <header className={styles.head}>
        <div className={styles.title}>
          <h1>
            <UserText text={title} />
          </h1>
          {note && <span className={styles.note}>{note}</span>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface CardProps {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}

export function Card({ title, actions, children, className }: CardProps) {
  return (
    <section className={joined(styles.card, className)}>
      {title && (
        <header className={styles.cardHead}>
          <h2>{title}</h2>
          {actions}
        </header>
      )}
      <div className={styles.cardBody}>{children}</div>
    </section>
  );
}
