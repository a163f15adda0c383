/** A part of the screen with a heading. */
import type { LucideIcon } from "lucide-react";
import { type ReactNode, useId } from "react";
import { joined } from "../../ui/controls";
import styles from "./Run.module.css";

interface PanelProps {
  /** For links to it. */
  id?: string;
  title: string;
  icon: LucideIcon;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}

export function Panel({ id, title, icon: Icon, actions, children, className }: PanelProps) {
  const titleId = useId();
  return (
    <section id={id} className={joined(styles.panel, className)} aria-labelledby={titleId}>
      <header className={styles.panelHead}>
        <h2 id={titleId}>
          <Icon size={14} aria-hidden />
          {title}
        </h2>
        {actions}
      </header>
      {children}
    </section>
  );
}
