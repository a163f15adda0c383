import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { browser, reloadOnce, started } from "./startRecovery";

describe("a page whose code cannot be loaded", () => {
  const root = document.createElement("div");
  root.id = "root";
  beforeEach(() => {
    vi.spyOn(browser, "reload").mockImplementation(() => undefined);
    document.body.append(root);
    started();
  });
  afterEach(() => {
    root.replaceChildren();
    root.remove();
    started();
  });

  it("is reloaded once, then shows an error in both languages", () => {
    reloadOnce();
    expect(browser.reload).toHaveBeenCalledOnce();
    expect(root.textContent).toBe("");
    reloadOnce();
    expect(browser.reload).toHaveBeenCalledOnce();
    expect(root.querySelector("[role=alert]")?.textContent).toMatch(
      /could not be loaded.*読み込めませんでした/,
    );
  });

  it("is reloaded again after a successful start", () => {
    reloadOnce();
    started();
    reloadOnce();
    expect(browser.reload).toHaveBeenCalledTimes(2);
  });

  it("is not reloaded for ever without storage", () => {
    vi.spyOn(Storage.prototype, "getItem").mockImplementation(() => {
      throw new DOMException("forbidden", "SecurityError");
    });
    reloadOnce();
    expect(browser.reload).not.toHaveBeenCalled();
    expect(root.textContent).toContain("could not be loaded");
  });
});
