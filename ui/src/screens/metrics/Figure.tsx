/** One number with its label; a link, if the list of what it counts has a screen. */
import type { ReactNode } from "react";
import { joined } from "../../ui/controls";
import styles from "./Figure.module.css";

export interface FigureProps {
  className?: string;
  label: string;
  value: string;
  /** What it counts. */
  to?: string;
  children: ReactNode;
}

export function Figure({ className, label, value, to, children }: FigureProps) {
  const content = (
    <>
      <span className={styles.label}>{label}</span>
      <span className={styles.value}>{value}</span>
      {children}
    </>
  );
  return (
    <li>
      {to ? (
        <a className={joined(styles.figure, className)} href={to}>
          {content}
        </a>
      ) : (
        <div className={joined(styles.figure, className)}>{content}</div>
      )}
    </li>
  );
}
