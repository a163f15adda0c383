/** Menus by Radix. */
import * as Dropdown from "@radix-ui/react-dropdown-menu";
import { Check } from "lucide-react";
import { createContext, type ReactNode, useContext, useRef } from "react";
import { joined } from "./controls";
import styles from "./menus.module.css";

/** The action runs when the menu is closed and its button has the focus, so that a dialog returns it there. */
const Chosen = createContext<(act: () => void) => void>((act) => act());

interface MenuProps {
  /** The button, which must accept a ref and further props. */
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
}

export function Menu({ trigger, children, align = "start" }: MenuProps) {
  const chosen = useRef<() => void>(undefined);
  const button = useRef<HTMLButtonElement>(null);
  const leftByClick = useRef(false);
  const onGone = (event: Event) => {
    // Radix reports this after the menu is gone, and would take the focus from another element.
    event.preventDefault();
    if (!leftByClick.current && hasNoFocusElsewhere(event.target)) button.current?.focus();
    leftByClick.current = false;
    const act = chosen.current;
    chosen.current = undefined;
    if (act) queueMicrotask(act);
  };
  return (
    // Not modal: modal menus add a style to the page, which the policy forbids.
    <Dropdown.Root modal={false}>
      <Dropdown.Trigger ref={button} asChild>
        {trigger}
      </Dropdown.Trigger>
      <Dropdown.Portal>
        <Dropdown.Content
          className={styles.menu}
          align={align}
          sideOffset={5}
          collisionPadding={8}
          onInteractOutside={() => {
            leftByClick.current = true;
          }}
          onCloseAutoFocus={onGone}
        >
          <Chosen
            value={(act) => {
              chosen.current = act;
            }}
          >
            {children}
          </Chosen>
        </Dropdown.Content>
      </Dropdown.Portal>
    </Dropdown.Root>
  );
}

/** Whether the focus was lost with the menu: then it is on the body. */
function hasNoFocusElsewhere(menu: EventTarget | null): boolean {
  const { activeElement } = document;
  return !activeElement || activeElement === document.body || (menu as Node).contains(activeElement);
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
    <Dropdown.Item
      className={joined(styles.item, danger && styles.danger)}
      onSelect={() => choose(onSelect)}
      disabled={disabled}
    >
      {children}
    </Dropdown.Item>
  );
}

export function MenuCheck({
  checked,
  onChange,
  children,
}: {
  checked: boolean;
  onChange: () => void;
  children: ReactNode;
}) {
  return (
    <Dropdown.CheckboxItem
      className={styles.item}
      checked={checked}
      onSelect={(event) => {
        // Several are usually chosen at once.
        event.preventDefault();
        onChange();
      }}
    >
      <span className={styles.check}>{checked && <Check size={14} />}</span>
      {children}
    </Dropdown.CheckboxItem>
  );
}

export const MenuLabel = ({ children }: { children: ReactNode }) => (
  <Dropdown.Label className={styles.label}>{children}</Dropdown.Label>
);

export const MenuLine = () => <Dropdown.Separator className={styles.line} />;
