/** An overlay returns the focus, but does not take it from another element. */
import { act, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { createRoot } from "react-dom/client";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { Dialog } from "./Dialog";
import { Menu, MenuItem } from "./menus";

const aMoment = () => act(() => new Promise((resolve) => setTimeout(resolve, 5)));

describe("a menu", () => {
  const chosen = vi.fn();
  async function opened() {
    render(
      <>
        <input aria-label="search" />
        <Menu trigger={<button type="button">Actions</button>}>
          <MenuItem onSelect={chosen}>Pause</MenuItem>
        </Menu>
      </>,
    );
    fireEvent.keyDown(screen.getByRole("button"), { key: "Enter" });
    await waitFor(() => expect(screen.getByRole("menu").contains(document.activeElement)).toBe(true));
    return { button: screen.getByText("Actions"), search: screen.getByLabelText("search") };
  }
  const leave = () => {
    fireEvent.keyDown(document.activeElement ?? document.body, { key: "Escape" });
    expect(screen.queryByRole("menu")).toBeNull();
  };

  it("returns the focus to its button", async () => {
    const { button } = await opened();
    leave();
    await waitFor(() => expect(document.activeElement).toBe(button));
  });

  it("does not take the focus from another field, and still runs the action", async () => {
    const { search } = await opened();
    leave();
    search.focus();
    await aMoment();
    expect(document.activeElement).toBe(search);

    fireEvent.keyDown(screen.getByText("Actions"), { key: "Enter" });
    fireEvent.click(await screen.findByRole("menuitem"));
    search.focus();
    await waitFor(() => expect(chosen).toHaveBeenCalledOnce());
    expect(document.activeElement).toBe(search);
  });

  it("keeps the focus where an outside click put it, once", async () => {
    const { button } = await opened();
    await aMoment();
    fireEvent.pointerDown(document.body, { button: 0 });
    await waitFor(() => expect(screen.queryByRole("menu")).toBeNull());
    await aMoment();
    expect(document.activeElement).not.toBe(button);

    fireEvent.keyDown(button, { key: "Enter" });
    await screen.findByRole("menu");
    leave();
    await waitFor(() => expect(document.activeElement).toBe(button));
  });
});

describe("a dialog", () => {
  // jsdom has no modal dialogs.
  beforeEach(() => {
    HTMLDialogElement.prototype.showModal ??= vi.fn();
    HTMLDialogElement.prototype.close ??= vi.fn();
  });

  it("returns the focus when it is removed, not later", async () => {
    // Without `act`, as when a response closes it: effects then run after the browser has painted.
    vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", false);
    const box = document.body.appendChild(document.createElement("div"));
    const root = createRoot(box);
    const page = (open: boolean) => (
      <>
        <button type="button">Cancel…</button>
        <Dialog open={open} onClose={() => undefined} title="Sure?">
          <input aria-label="reason" />
        </Dialog>
      </>
    );
    const focusAt = (selector: string, isThere: boolean) =>
      new Promise<Element | null>((resolve) => {
        const look = (_: unknown, observer: MutationObserver) => {
          if ((box.querySelector(selector) !== null) !== isThere) return;
          observer.disconnect();
          resolve(document.activeElement);
        };
        new MutationObserver(look).observe(box, { childList: true, subtree: true });
      });
    try {
      const begun = focusAt("button", true);
      root.render(page(false));
      await begun;
      box.querySelector("button")?.focus();
      const opened = focusAt("dialog", true);
      root.render(page(true));
      expect(await opened).toBe(screen.getByLabelText("reason"));
      const gone = focusAt("dialog", false);
      root.render(page(false));
      expect(await gone).toBe(screen.getByText("Cancel…"));
    } finally {
      root.unmount();
      box.remove();
      vi.unstubAllGlobals();
    }
  });
});
