/** Markdown as React elements: no HTML is interpreted, nothing is loaded, and links lead to http(s) only. */
import { Fragment, type ReactNode } from "react";
import { visible } from "../lib/visible";
import { TextTable } from "../ui/TextTable";
import styles from "./Markdown.module.css";
import { type Block, blocksOf, type Inline, type Item, inlinesOf } from "./markdownText";

// Longer texts are shown as they are: a page of such a size is no longer read as prose.
const MAX_CHARACTERS = 200_000;

export function Markdown({ text }: { text: string }) {
  if (text.length > MAX_CHARACTERS) return <pre className={styles.whole}>{visible(text)}</pre>;
  return <div className={styles.markdown}>{blocks(blocksOf(text), [])}</div>;
}

/** `above` are the levels of the headings that this place is under, so that no level is left out. */
function blocks(items: readonly Block[], above: number[]): ReactNode[] {
  // biome-ignore lint/suspicious/noArrayIndexKey: the blocks of a text have no other name.
  return items.map((block, index) => <Fragment key={index}>{view(block, above)}</Fragment>);
}

function view(block: Block, above: number[]): ReactNode {
  switch (block.kind) {
    case "heading": {
      while ((above.at(-1) ?? 0) >= block.level) above.pop();
      above.push(block.level);
      const Tag = (["h3", "h4", "h5", "h6"] as const)[above.length - 1] ?? "h6";
      return <Tag>{inline(block.text)}</Tag>;
    }
    case "code":
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: whoever has no mouse scrolls it with the arrows.
        <pre tabIndex={0}>
          <code>{visible(block.text)}</code>
        </pre>
      );
    case "quote":
      return <blockquote>{blocks(block.blocks, [...above])}</blockquote>;
    case "list":
      return block.ordered ? (
        <ol start={block.start}>{block.items.map(item)}</ol>
      ) : (
        <ul>{block.items.map(item)}</ul>
      );
    case "table":
      return (
        <div className={styles.table}>
          <TextTable head={block.head} rows={block.rows} cell={inline} />
        </div>
      );
    case "line":
      return <hr />;
    case "text":
      return <p>{inline(block.text)}</p>;
  }
}

function item({ text, checked, blocks: inside }: Item, index: number): ReactNode {
  return (
    <li key={index} className={checked === null ? undefined : styles.task}>
      {checked !== null && <span aria-hidden>{checked ? "☑" : "☐"}</span>}
      {inline(text)}
      {blocks(inside, [])}
    </li>
  );
}

const inline = (text: string): ReactNode =>
  // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text have no other name.
  inlinesOf(text).map((piece, index) => <Fragment key={index}>{mark(piece)}</Fragment>);

function mark(piece: Inline): ReactNode {
  switch (piece.kind) {
    case "code":
      return <code>{visible(piece.text)}</code>;
    case "strong":
      return <strong>{inline(piece.text)}</strong>;
    case "em":
      return <em>{inline(piece.text)}</em>;
    case "del":
      return <del>{inline(piece.text)}</del>;
    case "link":
      return (
        <a href={piece.url} target="_blank" rel="noopener noreferrer">
          {visible(piece.text)}
        </a>
      );
    case "break":
      return <br />;
    case "plain":
      return visible(piece.text);
  }
}
