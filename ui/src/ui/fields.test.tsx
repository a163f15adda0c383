import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { CodeField, InputField } from "./fields";

it.each([InputField, CodeField])("a required field is announced as such", (Control) => {
  const show = (label: string, required: boolean) => {
    render(<Control label={label} required={required} value="" onChange={() => undefined} />);
    return screen.getByLabelText(label).getAttribute("aria-required");
  };
  expect([show("Name", true), show("Note", false)]).toEqual(["true", null]);
});
