/** A part of the screen with a heading. */
import type { LucideIcon } from "lucide-react";
import { type ReactNode, useId } from "react";
import { joined } from "../../ui/controls";
import styles from "./Run.module.css";

interface PanelProps {
  title: string;
  icon: LucideIcon;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}

export function Panel({ title, icon: Icon, actions, children, className }: PanelProps) {
  const id = useId();
  return (
    <section className={joined(styles.panel, className)} aria-labelledby={id}>
      <header className={styles.panelHead}>
        <h2 id={id}>
          <Icon size={14} aria-hidden />
          {title}
        </h2>
        {actions}
      </header>
      {children}
    </section>
  );
}
