import { cleanup, fireEvent, render } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { useShortcut } from "./shortcuts";

function Keys({ taken }: { taken: Record<string, () => void> }) {
  return Object.entries(taken).map(([keys, run]) => <Key key={keys} keys={keys} run={run} />);
}

function Key({ keys, run }: { keys: string; run: () => void }) {
  useShortcut(keys, run);
  return null;
}

function show(...keys: string[]) {
  const taken = Object.fromEntries(keys.map((each) => [each, vi.fn()]));
  const { container } = render(
    <>
      <Keys taken={taken} />
      <input aria-label="text" />
      <a href="#/x">
        <span>inside a link</span>
      </a>
    </>,
  );
  const find = (selector: string) => container.querySelector(selector) as HTMLElement;
  return { taken, find };
}

describe("keys", () => {
  afterEach(() => {
    cleanup();
    for (const dialog of document.querySelectorAll("dialog")) dialog.remove();
  });

  it("are ignored in inputs, except that of the palette", () => {
    const { taken, find } = show("mod+Enter", "mod+k", "j");
    for (const key of ["Enter", "k"]) fireEvent.keyDown(find("input"), { key, ctrlKey: true });
    fireEvent.keyDown(find("input"), { key: "j" });
    expect(taken["mod+Enter"]).not.toHaveBeenCalled();
    expect(taken.j).not.toHaveBeenCalled();
    expect(taken["mod+k"]).toHaveBeenCalledOnce();
  });

  it("are ignored behind a dialog, except that of the palette", () => {
    const { taken } = show("mod+Enter", "mod+k");
    document.body.append(Object.assign(document.createElement("dialog"), { open: true }));
    for (const key of ["Enter", "k"]) fireEvent.keyDown(document.body, { key, ctrlKey: true });
    expect(taken["mod+Enter"]).not.toHaveBeenCalled();
    expect(taken["mod+k"]).toHaveBeenCalledOnce();
  });

  it("leave Enter to the focused link", () => {
    const { taken, find } = show("Enter");
    expect(fireEvent.keyDown(find("a span"), { key: "Enter" })).toBe(true);
    expect(taken.Enter).not.toHaveBeenCalled();
    fireEvent.keyDown(document.body, { key: "Enter" });
    expect(taken.Enter).toHaveBeenCalledOnce();
  });

  it("prefer a sequence to a single key", () => {
    const { taken } = show("w", "g w");
    fireEvent.keyDown(document.body, { key: "g" });
    fireEvent.keyDown(document.body, { key: "w" });
    expect(taken["g w"]).toHaveBeenCalledOnce();
    expect(taken.w).not.toHaveBeenCalled();
    fireEvent.keyDown(document.body, { key: "w" });
    expect(taken.w).toHaveBeenCalledOnce();
  });
});
