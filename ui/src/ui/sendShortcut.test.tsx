import { fireEvent, render, screen } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { onSendShortcut } from "./sendShortcut";

it("submits the focused form only", () => {
  const send = vi.fn();
  render(
    <>
      <input aria-label="search" />
      <form onKeyDown={onSendShortcut(send)}>
        <textarea aria-label="note" />
      </form>
    </>,
  );
  const press = (label: string, how: object) =>
    fireEvent.keyDown(screen.getByLabelText(label), { key: "Enter", ...how });
  press("search", { ctrlKey: true });
  press("note", {});
  press("note", { ctrlKey: true, isComposing: true });
  expect(send).not.toHaveBeenCalled();
  press("note", { ctrlKey: true });
  press("note", { metaKey: true });
  expect(send).toHaveBeenCalledTimes(2);
});
