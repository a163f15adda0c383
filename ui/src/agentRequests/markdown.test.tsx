import { render } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { Markdown } from "./Markdown";
import { blocksOf, inlinesOf } from "./markdownText";

const shown = (text: string) => render(<Markdown text={text} />).container;
const html = (text: string) => shown(text).innerHTML;

describe("a Markdown text", () => {
  it("has headings without a gap between their levels", () => {
    const page = shown("## Goal\n#### Detail\n## Next\n# Top\n## Below");
    expect(
      [...page.querySelectorAll("h3, h4")].map(({ tagName, textContent }) => `${tagName} ${textContent}`),
    ).toEqual(["H3 Goal", "H4 Detail", "H3 Next", "H3 Top", "H4 Below"]);
  });

  it("has lists within lists, tasks and numbers", () => {
    const page = shown("- one\n  - two\n    more\n- [x] three\n- [ ] four\n\n3. five\n4. six");
    expect(page.querySelectorAll("ul ul li")).toHaveLength(1);
    expect(page.querySelector("ul ul li")?.textContent).toBe("two\nmore");
    expect(page.querySelector("ol")?.getAttribute("start")).toBe("3");
    expect(page.textContent).toContain("☑three");
    expect(page.textContent).toContain("☐four");
  });

  it("has code in which nothing else counts", () => {
    const page = shown("```sh\n# no heading\n**no**\n```\nand `**code**`");
    expect(page.querySelector("pre")?.textContent).toBe("# no heading\n**no**");
    expect(page.querySelector("p code")?.textContent).toBe("**code**");
    expect(page.querySelector("strong, h3")).toBeNull();
  });

  it("keeps a fence that is never closed to its end", () =>
    expect(blocksOf("a\n~~~\nb\n\nc")).toEqual([
      { kind: "text", text: "a" },
      { kind: "code", text: "b\n\nc" },
    ]));

  it("has tables, quotes and lines", () => {
    const page = shown("| a | b |\n|---|:-:|\n| `1` | 2 \\| 3 |\n\n> said\n> **so**\n\n---\nend");
    expect([...page.querySelectorAll("td")].map(({ textContent }) => textContent)).toEqual(["1", "2 | 3"]);
    expect(page.querySelector("blockquote strong")?.textContent).toBe("so");
    expect(page.querySelector("hr")).not.toBeNull();
  });

  it("marks words, not names", () => {
    expect(html("**bold _inner_** *em* ~~old~~")).toContain(
      "<strong>bold <em>inner</em></strong> <em>em</em> <del>old</del>",
    );
    expect(inlinesOf("snake_case_name and 2*3*4")).toEqual([
      { kind: "plain", text: "snake_case_name and 2*3*4" },
    ]);
  });
});

describe("a hostile text", () => {
  it("is shown as text", () => {
    const hostile = '<script>alert(1)</script><img src=x onerror="alert(2)"> &lt;b&gt;';
    const page = shown(hostile);
    expect(page.querySelector("script, img, b")).toBeNull();
    expect(page.textContent).toBe(hostile);
  });

  it("has links to web pages only, and loads no image", () => {
    const page = shown(
      "[a](javascript:alert(1)) [b](data:text/html,x) ![c](https://x.test/c.png) [d](https://x.test/d) https://x.test/e.",
    );
    expect([...page.querySelectorAll("a")].map((link) => link.getAttribute("href"))).toEqual([
      "https://x.test/c.png",
      "https://x.test/d",
      "https://x.test/e",
    ]);
    expect(page.querySelector("img")).toBeNull();
    expect([...page.querySelectorAll("a")].every(({ rel }) => rel === "noopener noreferrer")).toBe(true);
  });

  it("shows control characters by their code", () =>
    expect(shown("a\u202Eb `\u001b[31m`").textContent).toBe("a⟨U+202E⟩b ⟨U+001B⟩[31m"));

  it.each(["`", "*", "[", "> ", "- ", "#", "|", "~~", "**a", "_", "\\", "![", "  - "])(
    "of many %j is read in one pass",
    (piece) => {
      const many = piece.repeat(Math.floor(100_000 / piece.length));
      expect(blocksOf(many).length + inlinesOf(many).length).toBeGreaterThan(1);
      expect(blocksOf(`${piece}\n`.repeat(20_000)).length).toBeGreaterThan(0);
    },
  );

  it("that is very long is shown as it is", () =>
    expect(shown(`# ${"a".repeat(300_000)}`).querySelector("pre")).not.toBeNull());
});
