/** Empty, loading and error states. */

import { CircleAlert, type LucideIcon, SearchX } from "lucide-react";
import type { ReactNode } from "react";
import { Problem } from "../api/problem";
import { useMessages } from "../i18n/messages";
import { visible } from "../lib/visible";
import { Button, ButtonLink } from "./controls";
import styles from "./feedback.module.css";
import { messages } from "./messages";
import { UserText } from "./UserText";

interface EmptyStateProps {
  icon: LucideIcon;
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
}

export function EmptyState({ icon: Icon, title, children, actions }: EmptyStateProps) {
  return (
    <div className={styles.empty}>
      <span className={styles.emptyIcon}>
        <Icon size={20} aria-hidden />
      </span>
      <h2>{title}</h2>
      {children && <div className={styles.emptyText}>{children}</div>}
      {actions && <div className={styles.emptyActions}>{actions}</div>}
    </div>
  );
}

interface NothingMatchesProps {
  title: string;
  /** The button that clears the filters, if it has another text. */
  clear?: string;
  onClear: () => void;
  children?: ReactNode;
}

/** A list whose filters match nothing. */
export function NothingMatches({ title, clear, onClear, children }: NothingMatchesProps) {
  const t = useMessages(messages);
  return (
    <EmptyState
      icon={SearchX}
      title={title}
      actions={<Button onClick={onClear}>{clear ?? t("clearTheFilters")}</Button>}
    >
      {children}
    </EmptyState>
  );
}

interface ProblemBoxProps {
  /** Anything that was thrown. */
  problem: unknown;
  onRetry?: () => void;
}

/** An error of the gateway, with its id. */
export function ProblemBox({ problem: thrown, onRetry }: ProblemBoxProps) {
  const t = useMessages(messages);
  const problem = Problem.from(thrown);
  return (
    <div className={styles.problem} role="alert">
      <CircleAlert size={17} aria-hidden />
      <p className={styles.problemTitle}>
        <UserText text={problem.title} />
        {problem.errId && <code>{problem.errId}</code>}
      </p>
      <div className={styles.problemBody}>
        <UserText text={problem.detail} />
        {problem.fields.length > 1 && (
          <ul className={styles.problemFields}>
            {problem.fields.map((each) => (
              <li key={`${each.field} ${each.message}`}>
                <code>{visible(each.field)}</code> <UserText text={each.message} />
              </li>
            ))}
          </ul>
        )}
      </div>
      {(onRetry || problem.wantsKey) && (
        <div className={styles.problemActions}>
          {problem.wantsKey && <ButtonLink href="#/settings">{t("openSettings")}</ButtonLink>}
          {onRetry && <Button onClick={onRetry}>{t("retry")}</Button>}
        </div>
      )}
    </div>
  );
}

/** A placeholder while text is loading. */
export function Skeleton({ width = "60%" }: { width?: string | number }) {
  return <span className={styles.skeleton} style={{ width }} aria-hidden />;
}

export function Loading() {
  const t = useMessages(messages);
  return (
    <div className={styles.empty} role="status">
      <span className="hidden-visually">{t("loading")}</span>
      <Skeleton width={220} />
      <Skeleton width={160} />
    </div>
  );
}
