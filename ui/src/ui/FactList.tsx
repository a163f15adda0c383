/** Names and values in a row. */
import type { ReactNode } from "react";
import { joined } from "./controls";
import styles from "./FactList.module.css";

interface FactListProps {
  className?: string;
  children: ReactNode;
}

export const FactList = ({ className, children }: FactListProps) => (
  <dl className={joined(styles.facts, className)}>{children}</dl>
);

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
