import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it } from "vitest";
import { apiKey } from "../api/apiKey";
import { KeyForm } from "./KeyForm";

const field = () => document.querySelector("input") as HTMLInputElement;

function enter(key: string) {
  fireEvent.change(field(), { target: { value: key } });
  fireEvent.submit(field());
}

beforeEach(() => {
  apiKey.set("");
  render(<KeyForm />);
});
afterEach(() => {
  cleanup();
  apiKey.set("");
});

it("trims a key", () => {
  enter(" pyoco_abc-123 ");
  expect(apiKey.get()).toBe("pyoco_abc-123");
});

it.each(["キー", "pyoco–abc", "two words"])("rejects %s, which no header can carry", (key) => {
  enter(key);
  expect(apiKey.get()).toBe("");
  expect(field().getAttribute("aria-invalid")).toBe("true");
  expect(field().value).toBe(key);
  expect(screen.getByRole("alert").textContent).toMatch(/ASCII|半角/);
  fireEvent.change(field(), { target: { value: "a" } });
  expect(screen.queryByRole("alert")).toBeNull();
});
