import { fireEvent, render, screen } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { SearchField } from "./SearchField";

function shown(value: string) {
  const onSearch = vi.fn((text: string) => text);
  render(<SearchField label="Search" placeholder="" value={value} onSearch={onSearch} />);
  const field = screen.getByLabelText("Search");
  return { field, onSearch };
}

it("applies what was typed when the field is left, so that it never shows a filter that does not apply", () => {
  const { field, onSearch } = shown("");
  fireEvent.change(field, { target: { value: "flow:gpu_render" } });
  expect(onSearch).not.toHaveBeenCalled();
  fireEvent.blur(field);
  expect(onSearch).toHaveBeenCalledExactlyOnceWith("flow:gpu_render");
});

it.each(["", "orders"])("searches nothing new when %j is left unchanged", (value) => {
  const { field, onSearch } = shown(value);
  fireEvent.focus(field);
  fireEvent.blur(field);
  expect(onSearch).not.toHaveBeenCalled();
});

it("removes the search when the field is left empty", () => {
  const { field, onSearch } = shown("orders");
  fireEvent.change(field, { target: { value: " " } });
  fireEvent.blur(field);
  expect(onSearch).toHaveBeenCalledExactlyOnceWith(" ");
});
