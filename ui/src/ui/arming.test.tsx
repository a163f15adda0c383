import { act, cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ACCIDENT_GUARD_MS, Arming } from "./arming";
import { Button } from "./controls";
import { Dialog } from "./Dialog";

beforeEach(() => {
  vi.useFakeTimers();
  HTMLDialogElement.prototype.showModal ??= () => undefined;
  HTMLDialogElement.prototype.close ??= () => undefined;
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const click = (name: string) => fireEvent.click(screen.getByText(name));
const later = () => act(() => vi.advanceTimersByTime(ACCIDENT_GUARD_MS));

it("a button that decides does nothing in its first second", () => {
  const [decide, other, send] = [vi.fn(), vi.fn(), vi.fn((event) => event.preventDefault())];
  render(
    <Arming>
      <form onSubmit={send}>
        <Button kind="danger" onClick={decide}>
          Delete
        </Button>
        <Button onClick={other}>Back</Button>
        <Button kind="primary" type="submit">
          Send
        </Button>
      </form>
    </Arming>,
  );
  for (const name of ["Delete", "Back", "Send"]) click(name);
  expect([decide, other, send].map((each) => each.mock.calls.length)).toEqual([0, 1, 0]);
  expect(screen.getByText("Delete").getAttribute("aria-disabled")).toBe("true");
  later();
  for (const name of ["Delete", "Send"]) click(name);
  expect([decide, send].map((each) => each.mock.calls.length)).toEqual([1, 1]);
  expect(screen.getByText("Delete").getAttribute("aria-disabled")).toBeNull();
});

it("a held Enter does not confirm the dialog that it has opened", () => {
  const send = vi.fn((event) => event.preventDefault());
  render(
    <Dialog open onClose={() => undefined} title="Cancel?">
      <form onSubmit={send} aria-label="reason" />
    </Dialog>,
  );
  const form = document.querySelector("form") as HTMLFormElement;
  fireEvent.submit(form);
  expect(send).not.toHaveBeenCalled();
  later();
  fireEvent.submit(form);
  expect(send).toHaveBeenCalledOnce();
});
