import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { useLayoutEffect } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ErrorBoundary } from "./ErrorBoundary";
import { browser, loadPart, usePart } from "./loading";

const page = (entry: string) => `<script type="module" src="${entry}"></script>`;
const missing = () => Promise.reject(new TypeError("Failed to fetch dynamically imported module"));

function Part({ load }: { load: () => Promise<string> }) {
  return usePart(load) ?? "loading";
}

function PartDrawn({ load, whenDrawn }: { load: () => Promise<string>; whenDrawn: () => void }) {
  useLayoutEffect(whenDrawn, [whenDrawn]);
  return <Part load={load} />;
}

const show = (load: () => Promise<string>) =>
  render(
    <ErrorBoundary>
      <Part load={load} />
    </ErrorBoundary>,
  );

/** The page that the gateway serves, with this script, or a failure. */
function serving(entry: string | null) {
  vi.stubGlobal("fetch", async () => {
    if (entry === null) throw new TypeError("refused");
    return new Response(page(entry));
  });
}

describe("a part of the page", () => {
  const reload = vi.fn();
  const entry = document.createElement("script");
  beforeEach(() => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    vi.spyOn(browser, "reload").mockImplementation(reload);
    reload.mockClear();
    entry.type = "module";
    entry.setAttribute("src", "/static/assets/index-old.js");
    document.head.prepend(entry);
  });
  afterEach(() => {
    cleanup();
    entry.remove();
    vi.unstubAllGlobals();
  });

  it("is shown when it is loaded", async () => {
    show(async () => "here it is");
    expect(await screen.findByText("here it is")).toBeTruthy();
  });

  it("keeps the page while the gateway is unreachable, and reloads when it is back", async () => {
    serving(null);
    show(() => missing());
    expect(await screen.findByText(/gateway is not responding|ゲートウェイが応答しません/)).toBeTruthy();
    fireEvent.click(screen.getByRole("button"));
    await screen.findByRole("button");
    expect(reload).not.toHaveBeenCalled();
    serving("/static/assets/index-old.js");
    fireEvent.click(screen.getByRole("button"));
    await vi.waitFor(() => expect(reload).toHaveBeenCalledOnce());
  });

  it("does not reload for a part that is missing in the same build", async () => {
    serving("/static/assets/index-old.js");
    show(() => missing());
    expect(await screen.findByText(/dynamically imported/)).toBeTruthy();
    expect(reload).not.toHaveBeenCalled();
  });

  it("reloads once for another build", async () => {
    serving("/static/assets/index-new.js");
    show(() => missing());
    await vi.waitFor(() => expect(reload).toHaveBeenCalledOnce());
    cleanup();
    show(() => missing());
    expect(await screen.findByText(/dynamically imported/)).toBeTruthy();
    expect(reload).toHaveBeenCalledOnce();
  });

  it("is rendered when it is loaded between render and effects", async () => {
    vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", false);
    let arrive: (part: string) => void = () => undefined;
    const arriving = new Promise<string>((resolve) => {
      arrive = resolve;
    });
    const load = () => arriving;
    void loadPart(load);
    const box = document.createElement("div");
    const root = createRoot(box);
    root.render(<PartDrawn load={load} whenDrawn={() => arrive("here")} />);
    await vi.waitFor(() => expect(box.textContent).toBe("here"));
    root.unmount();
  });
});
