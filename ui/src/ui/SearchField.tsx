/** The search field, focused by `/`. It applies after Enter or, with `live`, on every keystroke. */
import { Search } from "lucide-react";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { useShortcut } from "../app/shortcuts";
import { Input, Kbd } from "./controls";
import styles from "./SearchField.module.css";

interface SearchFieldProps {
  label: string;
  placeholder: string;
  /** The current search. */
  value: string;
  /** Returns the text that stays in the field. */
  onSearch: (text: string) => string;
  live?: boolean;
}

export function SearchField({ label, placeholder, value, onSearch, live }: SearchFieldProps) {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setText(value), [value]);
  useShortcut("/", () => field.current?.focus(), label);
  const apply = (event: FormEvent) => {
    event.preventDefault();
    setText(onSearch(text));
  };
  return (
    <form className={styles.search} onSubmit={apply}>
      <Search size={14} aria-hidden />
      <Input
        ref={field}
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={text}
        maxLength={200}
        onChange={({ target }) => {
          setText(target.value);
          if (live) onSearch(target.value);
        }}
        onBlur={() => text.trim() === "" && value && onSearch("")}
        onKeyDown={(event) => event.key === "Escape" && field.current?.blur()}
      />
      <Kbd>/</Kbd>
    </form>
  );
}
