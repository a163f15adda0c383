import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { messages } from "./messages";
import { PauseNote } from "./PauseNote";
import { pauseReason } from "./pauseReason";

const ID = "5f10e88d-90ab-4cde-8f01-23456789abcd";

it("says in its own words that a failed run paused the schedule, and links to the run", () => {
  const { container } = render(<PauseNote note={`paused because run ${ID} failed`} />);
  expect(container.textContent).toBe(`${messages.en["pausedBy.failed"]} 5f10e88d`);
  expect(screen.getByRole("link").getAttribute("href")).toBe(`#/runs/${ID}`);
});

it("links to no run that was never started", () => {
  render(<PauseNote note={`paused because run ${ID} could not be started`} />);
  expect(screen.getByText("5f10e88d")).toBeTruthy();
  expect(screen.queryByRole("link")).toBeNull();
});

it("shows the note of a person as it is", () => {
  expect(pauseReason("paused because run 7 failed twice")).toBeNull();
  const { container } = render(<PauseNote note="until the audit is over" />);
  expect(container.textContent).toBe("until the audit is over");
});
