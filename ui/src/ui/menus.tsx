/** Menus: a button, and its items in the top layer of the page. */
import { Check } from "lucide-react";
import {
  cloneElement,
  createContext,
  type KeyboardEvent,
  type ReactElement,
  type ReactNode,
  useContext,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { joined } from "./controls";
import styles from "./menus.module.css";

/** Closes the menu; the action runs when its button has the focus, so that a dialog returns it there. */
const Chosen = createContext<(act: () => void) => void>((act) => act());

const GAP = 5;
const EDGE = 8;
const TALLEST = 420;

interface MenuProps {
  /** The button, which must accept a ref and further props. */
  trigger: ReactElement<Record<string, unknown>>;
  children: ReactNode;
  align?: "start" | "end";
}

export function Menu({ trigger, children, align = "start" }: MenuProps) {
  const [opened, setOpened] = useState<"keys" | "pointer" | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const leave = () => {
    setOpened(null);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!["Enter", " ", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    setOpened("keys");
  };
  return (
    <>
      {cloneElement(trigger, {
        ref: button,
        "aria-haspopup": "menu",
        "aria-expanded": opened !== null,
        "aria-controls": opened ? id : undefined,
        onKeyDown,
        onClick: () => setOpened(opened ? null : "pointer"),
      })}
      {opened && (
        <Chosen
          value={(act) => {
            leave();
            queueMicrotask(act);
          }}
        >
          <Items
            id={id}
            button={button}
            align={align}
            byKeys={opened === "keys"}
            onLeave={leave}
            onOutside={() => setOpened(null)}
          >
            {children}
          </Items>
        </Chosen>
      )}
    </>
  );
}

interface ItemsProps {
  id: string;
  button: { current: HTMLButtonElement | null };
  align: "start" | "end";
  /** Opened by the keyboard: the first item has the focus. */
  byKeys: boolean;
  onLeave: () => void;
  onOutside: () => void;
  children: ReactNode;
}

function Items({ id, button, align, byKeys, onLeave, onOutside, children }: ItemsProps) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const menu = ref.current;
    if (!menu || !button.current) return;
    // In the top layer, where the browser has one: nothing clips or covers it there.
    if (typeof menu.showPopover === "function") {
      menu.popover = "manual";
      menu.showPopover();
    }
    place(menu, button.current, align);
    (byKeys ? itemsIn(menu)[0] : menu)?.focus({ preventScroll: true });
  }, [button, align, byKeys]);
  useEffect(() => {
    const onPointer = (event: PointerEvent) => {
      const target = event.target as Node;
      if (!ref.current?.contains(target) && !button.current?.contains(target)) onOutside();
    };
    const onMove = () => ref.current && button.current && place(ref.current, button.current, align);
    document.addEventListener("pointerdown", onPointer);
    window.addEventListener("resize", onMove);
    document.addEventListener("scroll", onMove, true);
    return () => {
      document.removeEventListener("pointerdown", onPointer);
      window.removeEventListener("resize", onMove);
      document.removeEventListener("scroll", onMove, true);
    };
  });
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      onLeave();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      (document.activeElement as HTMLElement | null)?.click();
    } else if (ref.current && moveFocus(ref.current, event.key)) event.preventDefault();
  };
  return (
    <div
      ref={ref}
      id={id}
      role="menu"
      tabIndex={-1}
      className={styles.menu}
      aria-label={button.current?.getAttribute("aria-label") ?? button.current?.textContent ?? undefined}
      onKeyDown={onKeyDown}
    >
      {children}
    </div>
  );
}

const itemsIn = (menu: HTMLElement): HTMLElement[] => [
  ...menu.querySelectorAll<HTMLElement>('[role^="menuitem"]:not([aria-disabled="true"])'),
];

/** Arrows, Home and End; a letter goes to the next item that begins with it. */
function moveFocus(menu: HTMLElement, key: string): boolean {
  const items = itemsIn(menu);
  const at = items.indexOf(document.activeElement as HTMLElement);
  const last = items.length - 1;
  const to: Record<string, number> = {
    ArrowDown: Math.min(at + 1, last),
    ArrowUp: at < 0 ? last : Math.max(at - 1, 0),
    Home: 0,
    End: last,
  };
  const begins = (item: HTMLElement) => item.textContent?.trim().toLowerCase().startsWith(key.toLowerCase());
  const found = to[key] ?? [...items.keys()].find((each) => each > at && items[each] && begins(items[each]));
  if (key.length > 1 && !(key in to)) return false;
  items[found ?? items.findIndex(begins)]?.focus();
  return true;
}

/** Below its button, or above it where there is more room; within the window. */
function place(menu: HTMLElement, button: HTMLElement, align: "start" | "end"): void {
  const at = button.getBoundingClientRect();
  const below = window.innerHeight - at.bottom - GAP - EDGE;
  const above = at.top - GAP - EDGE;
  const height = Math.min(menu.scrollHeight + 2, TALLEST);
  const isAbove = height > below && above > below;
  const left = align === "end" ? at.right - menu.offsetWidth : at.left;
  menu.style.maxHeight = `${Math.min(TALLEST, isAbove ? above : below)}px`;
  menu.style.left = `${Math.max(EDGE, Math.min(left, window.innerWidth - menu.offsetWidth - EDGE))}px`;
  menu.style.top = `${isAbove ? at.top - GAP - Math.min(height, above) : at.bottom + GAP}px`;
}

interface ItemProps {
  children: ReactNode;
  onSelect: () => void;
  danger?: boolean;
  disabled?: boolean;
}

export function MenuItem({ children, onSelect, danger, disabled }: ItemProps) {
  const choose = useContext(Chosen);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the menu handles the keys of all items.
    <div
      role="menuitem"
      tabIndex={-1}
      aria-disabled={disabled || undefined}
      className={joined(styles.item, danger && styles.danger)}
      onPointerMove={focusIt}
      onClick={() => disabled || choose(onSelect)}
    >
      {children}
    </div>
  );
}

interface CheckProps {
  checked: boolean;
  onChange: () => void;
  children: ReactNode;
}

/** Stays open: several are usually chosen at once. */
export function MenuCheck({ checked, onChange, children }: CheckProps) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the menu handles the keys of all items.
    <div
      role="menuitemcheckbox"
      tabIndex={-1}
      aria-checked={checked}
      className={styles.item}
      onPointerMove={focusIt}
      onClick={onChange}
    >
      <span className={styles.check}>{checked && <Check size={14} />}</span>
      {children}
    </div>
  );
}

const focusIt = ({ currentTarget }: { currentTarget: HTMLElement }) =>
  currentTarget.focus({ preventScroll: true });

export const MenuLabel = ({ children }: { children: ReactNode }) => (
  <div className={styles.label}>{children}</div>
);

export const MenuLine = () => <div role="separator" className={styles.line} />;
