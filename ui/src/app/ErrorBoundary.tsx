/** An error in one screen does not affect the rest of the page. */
import { Component, type ReactNode } from "react";
import { Problem } from "../api/problem";
import { currentMessages } from "../i18n/messages";
import { ProblemBox } from "../ui/feedback";
import { Page } from "../ui/Page";
import { messages } from "./messages";

export class ErrorBoundary extends Component<{ children: ReactNode }, { thrown: unknown }> {
  override state = { thrown: null as unknown };

  static getDerivedStateFromError(thrown: unknown) {
    return { thrown };
  }

  override render() {
    if (this.state.thrown === null) return this.props.children;
    return (
      <Page title={currentMessages(messages)("broken")}>
        <ProblemBox
          problem={Problem.from(this.state.thrown)}
          onRetry={() => this.setState({ thrown: null })}
        />
      </Page>
    );
  }
}
