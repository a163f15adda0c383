import { fireEvent, render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { Flows } from "./WorkerDetails";

it("lists the first flows, and all of them on demand", () => {
  render(<Flows flows={Array.from({ length: 108 }, (_, at) => `flow_${at}`)} />);
  expect(screen.getAllByRole("link")).toHaveLength(20);
  fireEvent.click(screen.getByRole("button", { name: "Show all 108 flows" }));
  expect(screen.getAllByRole("link")).toHaveLength(108);
  expect(screen.queryByRole("button")).toBeNull();
});

it("has no button for a few", () => {
  render(<Flows flows={["a", "b"]} />);
  expect(screen.queryByRole("button")).toBeNull();
});
