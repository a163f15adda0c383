import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { queryClient } from "../../api/queries";
import type { WorkflowAction } from "../../triggers/eventApi";
import { Actions } from "./Actions";

const action = (key: string, implied: boolean) =>
  ({ key, flow_name: key, tag: "default", implied, has_workflow_yaml: false }) as WorkflowAction;

afterEach(() => {
  cleanup();
  queryClient.clear();
});

it("has one's own actions first, the first flows, and a filter for the others", () => {
  const flows = Array.from({ length: 30 }, (_, at) => action(`flow_${at}`, true));
  queryClient.setQueryData(["templates", "actions"], { items: [...flows, action("close", false)] });
  render(
    <QueryClientProvider client={queryClient}>
      <Actions />
    </QueryClientProvider>,
  );
  const names = () => screen.getAllByRole("rowheader").map(({ textContent }) => textContent);
  expect(names()).toHaveLength(20);
  expect(names()[0]).toBe("close");
  fireEvent.change(screen.getByRole("searchbox"), { target: { value: "FLOW_29" } });
  expect(names()).toEqual(["flow_29"]);
  fireEvent.change(screen.getByRole("searchbox"), { target: { value: "" } });
  fireEvent.click(screen.getByRole("button", { name: "Show all 31 actions" }));
  expect(names()).toHaveLength(31);
});
