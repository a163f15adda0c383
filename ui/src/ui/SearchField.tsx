/** The search field, focused by `/`. It applies on Enter and when it is left or, with `live`, on every keystroke. */
import { Search } from "lucide-react";
import { type FormEvent, type KeyboardEvent, useId, useLayoutEffect, useRef, useState } from "react";
import { useShortcut } from "../app/shortcuts";
import { useMessages } from "../i18n/messages";
import { Input, Kbd } from "./controls";
import { messages } from "./messages";
import styles from "./SearchField.module.css";
import { UserText } from "./UserText";

/** A suggested text, and the field with it. */
export interface Suggestion {
  text: string;
  field: string;
  caret: number;
  /** Whether the field is applied when it is chosen. */
  isFilter: boolean;
}

interface SearchFieldProps {
  label: string;
  placeholder: string;
  /** The current search. */
  value: string;
  /** Returns the text that stays in the field. */
  onSearch: (text: string) => string;
  live?: boolean;
  /** With suggestions it is a combobox. */
  suggest?: (text: string, caret: number) => readonly Suggestion[];
  onFocus?: () => void;
}

export function SearchField(props: SearchFieldProps) {
  const { label, placeholder, value, onSearch, live, suggest, onFocus } = props;
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  // Before it is painted: a later effect would undo what is typed meanwhile.
  useLayoutEffect(() => setText(value), [value]);
  useShortcut("/", () => field.current?.focus(), label);
  const search = (typed: string) => setText(onSearch(typed));
  const change = (typed: string) => {
    setText(typed);
    if (live) onSearch(typed);
  };
  const list = useSuggestions(suggest, field, text, { change, search });
  const apply = (event: FormEvent) => {
    event.preventDefault();
    list.close();
    search(text);
  };
  return (
    <form className={styles.search} onSubmit={apply}>
      <Search size={14} aria-hidden />
      <Input
        ref={field}
        type="search"
        aria-label={label}
        placeholder={placeholder}
        autoComplete="off"
        value={text}
        maxLength={200}
        onChange={({ target }) => {
          change(target.value);
          list.open();
        }}
        onFocus={onFocus}
        onBlur={() => {
          list.close();
          // What the field shows is what applies: a bulk operation on the list would concern other runs.
          if (text.trim() !== value) search(text);
        }}
        onKeyDown={(event) => {
          if (!list.onKeyDown(event) && event.key === "Escape") field.current?.blur();
        }}
        {...list.wired}
      />
      <Kbd>/</Kbd>
      {list.shown}
    </form>
  );
}

interface Acts {
  change: (text: string) => void;
  search: (text: string) => void;
}

function useSuggestions(
  suggest: SearchFieldProps["suggest"],
  field: { current: HTMLInputElement | null },
  text: string,
  { change, search }: Acts,
) {
  const t = useMessages(messages);
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const [caret, setCaret] = useState<number | null>(null);
  const at = Math.min(field.current?.selectionStart ?? text.length, text.length);
  const found = suggest && isOpen ? suggest(text, at) : [];
  useLayoutEffect(() => {
    if (caret === null) return;
    field.current?.setSelectionRange(caret, caret);
    setCaret(null);
  }, [caret, field]);
  const close = () => {
    setOpen(false);
    setActive(-1);
  };
  const choose = (chosen: Suggestion) => {
    setActive(-1);
    if (chosen.isFilter) {
      setOpen(false);
      search(chosen.field);
    } else {
      change(chosen.field);
      setCaret(chosen.caret);
    }
  };
  /** Whether the list has used the key. */
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (!suggest || event.nativeEvent.isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const chosen = found[active];
    if (step && !isOpen) setOpen(true);
    else if (step && found.length > 0)
      // -1 is the field itself, between the last one and the first.
      setActive(((active + 1 + step + found.length + 1) % (found.length + 1)) - 1);
    else if ((event.key === "Enter" || event.key === "Tab") && chosen) choose(chosen);
    else if (event.key === "Escape" && found.length > 0) close();
    else return false;
    event.preventDefault();
    return true;
  };
  const shown = found.length > 0 && (
    <div id={id} role="listbox" aria-label={t("suggestions")} className={styles.suggestions}>
      {found.map((each, index) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the input handles the keys.
        <div
          key={each.text}
          id={`${id}-${index}`}
          role="option"
          tabIndex={-1}
          aria-selected={index === active}
          className={styles.suggestion}
          // The field keeps the focus.
          onPointerDown={(event) => event.preventDefault()}
          onClick={() => choose(each)}
        >
          <UserText text={each.text} />
        </div>
      ))}
    </div>
  );
  const wired = suggest
    ? {
        role: "combobox" as const,
        "aria-autocomplete": "list" as const,
        "aria-expanded": found.length > 0,
        "aria-controls": found.length > 0 ? id : undefined,
        "aria-activedescendant": active >= 0 && active < found.length ? `${id}-${active}` : undefined,
      }
    : {};
  return {
    open: () => {
      setOpen(true);
      setActive(-1);
    },
    close,
    onKeyDown,
    shown,
    wired,
  };
}
