/** The screen of one thing while it is not there: not found, or not read yet. */
import { SearchX } from "lucide-react";
import type { ReactNode } from "react";
import { href } from "../app/router";
import { ButtonLink } from "./controls";
import { EmptyState, Loading, ProblemBox } from "./feedback";
import { Page } from "./Page";

interface NotFoundPageProps {
  title: string;
  heading: string;
  /** The list of those that exist. */
  list: { path: string; label: string };
  children?: ReactNode;
}

export function NotFoundPage({ title, heading, list, children }: NotFoundPageProps) {
  return (
    <Page title={title}>
      <EmptyState
        icon={SearchX}
        title={heading}
        actions={<ButtonLink href={href(list.path)}>{list.label}</ButtonLink>}
      >
        {children}
      </EmptyState>
    </Page>
  );
}

interface LoadingPageProps {
  title: string;
  /** Why it cannot be read. */
  problem: unknown;
  onRetry?: () => unknown;
}

export function LoadingPage({ title, problem, onRetry }: LoadingPageProps) {
  return (
    <Page title={title}>
      {problem ? <ProblemBox problem={problem} onRetry={onRetry && (() => void onRetry())} /> : <Loading />}
    </Page>
  );
}
