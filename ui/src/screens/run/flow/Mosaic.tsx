/** Very many tasks: one tile each, in the order of the flow, with the neighbours of the selected one marked. */
import { type CSSProperties, type KeyboardEvent, memo, useEffect, useRef } from "react";
import { useMessages } from "../../../i18n/messages";
import { visible } from "../../../lib/visible";
import { joined } from "../../../ui/controls";
import { toneClass, useStatusText } from "../../../ui/status";
import styles from "./Flow.module.css";
import type { PictureProps } from "./Graph";
import { messages } from "./messages";

// Including the gap.
const TILE_PX = 17;
const SMALL_TILE_PX = 14;
const MANY = 500;

export function Mosaic({ tasks, selected, near, onSelect }: PictureProps) {
  const t = useMessages(messages);
  const word = useStatusText();
  const box = useRef<HTMLDivElement>(null);
  const tile = tasks.length > MANY ? SMALL_TILE_PX : TILE_PX;
  const at = tasks.findIndex((each) => each.name === selected);
  useEffect(() => {
    if (at >= 0) box.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const onKeyDown = (event: KeyboardEvent) => {
    const row = Math.max(1, Math.floor(((box.current?.clientWidth ?? 0) - 20) / tile));
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }[event.key];
    const next = step === undefined ? undefined : tasks[at < 0 ? 0 : at + step];
    if (!next) return;
    event.preventDefault();
    onSelect(next.name);
  };
  return (
    <div
      ref={box}
      className={styles.mosaic}
      style={{ "--tile": `${tile}px` } as CSSProperties}
      role="listbox"
      aria-label={t("mosaicLabel")}
      aria-activedescendant={at < 0 ? undefined : `tile-${at}`}
      tabIndex={0}
      onKeyDown={onKeyDown}
      // One listener for all tiles.
      onClick={({ target }) => {
        const name = target instanceof HTMLElement ? target.dataset.task : undefined;
        if (name !== undefined) onSelect(name === selected ? null : name);
      }}
    >
      {tasks.map(({ name, state }, index) => (
        <Tile
          key={name}
          id={`tile-${index}`}
          name={name}
          state={state}
          word={state === "PLANNED" ? null : word(state)}
          selected={name === selected}
          near={near.has(name)}
        />
      ))}
    </div>
  );
}

interface TileProps {
  id: string;
  name: string;
  state: string;
  /** Null: a task of a flow has no status. */
  word: string | null;
  selected: boolean;
  near: boolean;
}

const Tile = memo(function Tile({ id, name, state, word, selected, near }: TileProps) {
  return (
    <span
      id={id}
      role="option"
      aria-selected={selected}
      aria-label={[visible(name), word].filter(Boolean).join(", ")}
      title={[visible(name), word].filter(Boolean).join(" · ")}
      data-task={name}
      data-state={state}
      className={joined(
        styles.tile,
        toneClass(state),
        state === "PENDING" && styles.notYet,
        near && styles.near,
        selected && styles.chosen,
      )}
    />
  );
});
