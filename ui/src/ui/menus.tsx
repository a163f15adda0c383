/** Menus that open at a button, by Radix: arrows, letters, Escape and the roles are theirs. */
import * as Dropdown from "@radix-ui/react-dropdown-menu";
import { Check } from "lucide-react";
import { createContext, type ReactNode, useContext, useRef } from "react";
import { joined } from "./controls";
import styles from "./menus.module.css";

/** What is chosen is done once the menu is gone and its button has the focus: a dialog gives it back there. */
const Chosen = createContext<(act: () => void) => void>((act) => act());

interface MenuProps {
  /** The button, which must take a ref and further props. */
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
}

export function Menu({ trigger, children, align = "start" }: MenuProps) {
  const chosen = useRef<() => void>(undefined);
  const button = useRef<HTMLButtonElement>(null);
  const leftByClick = useRef(false);
  const onGone = (event: Event) => {
    // Radix says so a moment after the menu is gone, and would take the focus from whoever types elsewhere by now.
    event.preventDefault();
    if (!leftByClick.current && hasNoFocusElsewhere(event.target)) button.current?.focus();
    leftByClick.current = false;
    const act = chosen.current;
    chosen.current = undefined;
    if (act) queueMicrotask(act);
  };
  return (
    // Not modal: what is modal puts a style into the page, which the page's policy forbids.
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

/** Whether the focus went with the menu: then it is nowhere, which for a browser is the page's body. */
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
        // Several are usually chosen in one go.
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
